#include "poslab/models/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace poslab {
namespace {

// Tokens that run through the model together where the windows are shorter.
constexpr std::int64_t tokens_at_once = 4096;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[evaluate] " + sentence); }

}  // namespace

EvaluationText next_tokens(std::span<const std::int64_t> text) {
  if (text.empty()) return {};
  return {{text.begin(), text.end() - 1}, {text.begin() + 1, text.end()}, std::nullopt};
}

std::vector<EvaluationWindow> evaluation_windows(EvaluationMode mode, std::int64_t size, std::int64_t seq_len,
                                                 std::int64_t stride) {
  if (seq_len < 1) refuse(fmt::format("seq_len must be at least 1 but got {}.", seq_len));
  const bool chunks = mode == EvaluationMode::chunks;
  if (!chunks && (stride < 1 || stride > seq_len)) {
    refuse(fmt::format("stride must be 1 .. seq_len ({}) but got {}.", seq_len, stride));
  }
  const std::int64_t step = chunks ? seq_len : stride;
  std::vector<EvaluationWindow> windows;
  for (std::int64_t first = 0; first + seq_len <= size; first += step) {
    const bool all = chunks || (mode == EvaluationMode::sliding && first == 0);
    windows.push_back({first, seq_len, all ? 0 : seq_len - step});
  }
  return windows;
}

std::vector<EvaluationWindow> covering_chunks(std::int64_t size, std::int64_t length) {
  if (length < 1) refuse(fmt::format("the length of a chunk must be at least 1 but got {}.", length));
  std::vector<EvaluationWindow> windows;
  for (std::int64_t first = 0; first < size; first += length) {
    windows.push_back({first, std::min(length, size - first), 0});
  }
  return windows;
}

template <class T>
std::vector<ScoredToken> score_windows(const Transformer<T>& model, const EvaluationText& text,
                                       std::span<const EvaluationWindow> windows, const ForwardOptions& options,
                                       const std::function<void(double)>& progress) {
  std::vector<ScoredToken> scored;
  std::vector<std::int64_t> tokens, targets;
  for (std::size_t done = 0; done < windows.size();) {
    const std::int64_t length = windows[done].length;
    const std::int64_t most = std::max<std::int64_t>(1, tokens_at_once / length);
    std::size_t end = done;
    tokens.clear();
    targets.clear();
    for (; end < windows.size() && windows[end].length == length && static_cast<std::int64_t>(end - done) < most;
         ++end) {
      const EvaluationWindow& window = windows[end];
      for (std::int64_t i = 0; i < length; ++i) {
        const auto at = static_cast<std::size_t>(window.first + i);
        tokens.push_back(i == 0 && text.start ? *text.start : text.tokens[at]);
        targets.push_back(i < window.scored_from ? no_target : text.targets[at]);
      }
    }
    ForwardOptions watched = options;
    watched.progress = [&](double share) {
      progress((static_cast<double>(done) + share * static_cast<double>(end - done)) /
               static_cast<double>(windows.size()));
    };
    const std::vector<TokenScore> scores = model.score(tokens, targets, static_cast<std::int64_t>(end - done), watched);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (targets[i] == no_target) continue;
      const auto position = static_cast<std::int64_t>(i) % length;
      const EvaluationWindow& window = windows[done + i / static_cast<std::size_t>(length)];
      scored.push_back({window.first + position, position, scores[i].nll, scores[i].best == targets[i]});
    }
    done = end;
    progress(static_cast<double>(done) / static_cast<double>(windows.size()));
  }
  return scored;
}

std::vector<PositionBucket> position_buckets(std::span<const std::int64_t> edges, std::int64_t seq_len) {
  if (edges.empty()) refuse("buckets must name at least one edge.");
  if (edges.front() < 0) refuse(fmt::format("the edges of buckets must be 0 or more but got {}.", edges.front()));
  std::vector<PositionBucket> buckets;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (i > 0 && edges[i] <= edges[i - 1]) {
      refuse(fmt::format("the edges of buckets must ascend but {} follows {}.", edges[i], edges[i - 1]));
    }
    if (edges[i] >= seq_len) continue;
    const std::int64_t next = i + 1 < edges.size() ? std::min(edges[i + 1], seq_len) : seq_len;
    buckets.push_back({edges[i], next - 1});
  }
  return buckets;
}

std::vector<std::int64_t> doubling_edges(std::int64_t seq_len) {
  std::vector<std::int64_t> edges = {0};
  for (std::int64_t edge = 64; edge < seq_len; edge *= 2) edges.push_back(edge);
  return edges;
}

MeanLoss mean_loss(std::span<const double> nll) {
  MeanLoss loss;
  loss.tokens = std::ssize(nll);
  if (nll.empty()) return loss;
  const auto n = static_cast<double>(nll.size());
  double sum = 0;
  for (double value : nll) sum += value;
  loss.mean_nll = sum / n;
  if (nll.size() < 2) return loss;
  double squares = 0;
  for (double value : nll) squares += (value - loss.mean_nll) * (value - loss.mean_nll);
  loss.standard_error = std::sqrt(squares / (n - 1) / n);
  return loss;
}

std::int64_t trained_length(const TransformerConfig& config) {
  const bool stretched = config.encoding->acts_on(Place::rotation) && config.rope.original_max_position_embeddings;
  return stretched ? static_cast<std::int64_t>(*config.rope.original_max_position_embeddings)
                   : config.max_position_embeddings;
}

std::optional<RopeFrequencies> unscaled_frequencies(const TransformerConfig& config) {
  if (!config.encoding->acts_on(Place::rotation)) return std::nullopt;
  RopeScaling rope = config.rope;
  // The pairs that stand still belong to the model, not to its stretching.
  if (!rope.rope_type->part_of_training) rope.rope_type = RopeType();
  rope.factor = 1;
  return rope_frequencies(rope);
}

template std::vector<ScoredToken> score_windows(const Transformer<float>&, const EvaluationText&,
                                                std::span<const EvaluationWindow>, const ForwardOptions&,
                                                const std::function<void(double)>&);
template std::vector<ScoredToken> score_windows(const Transformer<double>&, const EvaluationText&,
                                                std::span<const EvaluationWindow>, const ForwardOptions&,
                                                const std::function<void(double)>&);

}  // namespace poslab
