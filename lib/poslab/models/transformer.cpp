#include "poslab/models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "poslab/methods/learned.h"
#include "poslab/models/score_head.h"
#include "poslab/models/training_pass.h"

namespace poslab {

template <class T>
struct Transformer<T>::State : TransformerState<T> {
  using TransformerState<T>::TransformerState;

  std::unique_ptr<TrainingPass<T>> training;  // kept from call to call
};

namespace {

// The length of each text.
std::int64_t check_tokens(const TransformerConfig& c, std::span<const std::int64_t> tokens,
                          std::span<const std::int64_t> targets, std::int64_t batch) {
  const auto check = [](bool good, const std::string& sentence) {
    if (!good) throw std::invalid_argument("[transformer] " + sentence);
  };
  check(batch >= 1 && !tokens.empty() && std::ssize(tokens) % batch == 0,
        fmt::format("{} tokens do not make {} texts of one length.", tokens.size(), batch));
  check(targets.size() == tokens.size(),
        fmt::format("there are {} tokens but {} targets.", tokens.size(), targets.size()));
  for (std::int64_t token : tokens) {
    check(token >= 0 && token < c.vocab_size, fmt::format("token {} is not 0 .. {}.", token, c.vocab_size - 1));
  }
  for (std::int64_t target : targets) {
    check(target == no_target || (target >= 0 && target < c.vocab_size),
          fmt::format("target {} is not 0 .. {}.", target, c.vocab_size - 1));
  }
  const std::int64_t seq_len = std::ssize(tokens) / batch;
  if (const auto most = c.encoding->longest_text(method_model(c))) require_learned_positions(seq_len, *most);
  return seq_len;
}

}  // namespace

template <class T>
Transformer<T>::Transformer(const TransformerConfig& config) : state_(std::make_unique<State>(config)) {}

template <class T>
Transformer<T>::Transformer(const TransformerConfig& config, Generator& generator) : Transformer(config) {
  const std::vector<double> drawn = initial_parameters(config, generator);
  std::transform(drawn.begin(), drawn.end(), values().begin(), [](double value) { return static_cast<T>(value); });
}

template <class T>
Transformer<T>::~Transformer() = default;
template <class T>
Transformer<T>::Transformer(Transformer&&) noexcept = default;
template <class T>
Transformer<T>& Transformer<T>::operator=(Transformer&&) noexcept = default;

template <class T>
const TransformerConfig& Transformer<T>::config() const {
  return state_->c;
}
template <class T>
const ParameterLayout& Transformer<T>::layout() const {
  return state_->layout;
}
template <class T>
std::span<T> Transformer<T>::values() {
  return state_->values.span();
}
template <class T>
std::span<const T> Transformer<T>::values() const {
  return state_->values.span();
}
template <class T>
std::span<T> Transformer<T>::values(const std::string& name) {
  const ParameterSpec& spec = layout().spec(name);
  return values().subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
}
template <class T>
std::span<const T> Transformer<T>::values(const std::string& name) const {
  const ParameterSpec& spec = layout().spec(name);
  return values().subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
}

template <class T>
std::vector<T> Transformer<T>::logits(std::span<const std::int64_t> tokens, std::int64_t batch,
                                      const ForwardOptions& options) const {
  const std::int64_t seq_len = check_tokens(config(), tokens, tokens, batch);
  TransformerPass<T> pass(*state_, batch, seq_len, options);
  pass.forward(tokens);
  pass.pack_head();
  std::vector<T> logits(tokens.size() * static_cast<std::size_t>(config().vocab_size));
  pass.for_each_block([&](std::int64_t first, std::int64_t n, T* normed) {
    pass.head(first, n, normed, logits.data() + first * config().vocab_size);
  });
  return logits;
}

template <class T>
std::vector<TokenScore> Transformer<T>::score(std::span<const std::int64_t> tokens,
                                              std::span<const std::int64_t> targets, std::int64_t batch,
                                              const ForwardOptions& options) const {
  const std::int64_t seq_len = check_tokens(config(), tokens, targets, batch);
  TransformerPass<T> pass(*state_, batch, seq_len, options);
  pass.forward(tokens);
  std::vector<TokenScore> scores(tokens.size());
  const std::int64_t d = config().d_model;
  const T* table = state_->values.data() + layout().head;
  Pool<AlignedBuffer<T>> pool;
  parallel_for(ceil_div(std::ssize(tokens), score_rows_at_once), options.threads, [&](std::int64_t task) {
    const std::int64_t first = task * score_rows_at_once;
    const std::int64_t n = std::min(score_rows_at_once, std::ssize(tokens) - first);
    const auto asked = targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
    if (std::ranges::all_of(asked, [](std::int64_t target) { return target == no_target; })) return;
    typename Pool<AlignedBuffer<T>>::Lease scratch(pool);
    if (scratch->size() == 0) *scratch = buffer<T>(score_rows_at_once * d + score_scratch());
    pass.last_norm(first, n, scratch->data());
    score_rows(d, config().vocab_size, scratch->data(), table, asked,
               std::span(scores).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)),
               scratch->data() + score_rows_at_once * d);
  });
  return scores;
}

template <class T>
double Transformer<T>::loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                                         std::int64_t batch, std::span<T> gradient, int threads) {
  const std::int64_t seq_len = check_tokens(config(), tokens, targets, batch);
  if (std::ssize(gradient) != layout().size()) {
    throw std::invalid_argument(
        fmt::format("[transformer] the gradient has {} values for {} parameters.", gradient.size(), layout().size()));
  }
  if (const std::string what = untrainable(config()); !what.empty()) {
    throw std::invalid_argument(fmt::format("[transformer] a model with {} runs but has no gradient here.", what));
  }
  std::unique_ptr<TrainingPass<T>>& pass = state_->training;
  if (!pass || pass->batch != batch || pass->seq_len != seq_len) {
    pass = std::make_unique<TrainingPass<T>>(*state_, batch, seq_len);
  }
  pass->threads = threads;
  return pass->loss_and_gradient(tokens, targets, gradient);
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace poslab
