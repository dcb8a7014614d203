// A decoder-only transformer with its hand-written gradient. Memory is linear in the number of tokens, and no result
// depends on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "poslab/core/random.h"
#include "poslab/models/parameters.h"
#include "poslab/models/transformer_config.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// How to run a model otherwise than it was trained.
struct ForwardOptions {
  std::optional<RopeFrequencies> rope;           // of a rotation; absent: config.rope's, for texts of this length
  std::optional<std::int64_t> attention_window;  // tokens, 0: all; absent: the config's. Local layers see no more than
                                                 // their own
  std::optional<RopeLayout> layout = {};         // which channels form a pair; absent: the config's
  int threads = 1;
  std::function<void(double)> progress = {};  // receives 0 .. 1 between layers
};

// What the model thinks of one target; zeros where there is none.
struct TokenScore {
  double nll = 0;         // -ln p(target), nats
  std::int64_t best = 0;  // the token it finds likeliest; no_target where nll is NaN
};

inline constexpr std::int64_t no_target = -1;

// T is float, or double for checks. Token arrays are [batch, seq_len], row by row, each row a text of its own; seq_len
// is their size / batch. A target of `no_target` counts for nothing.
template <class T>
class Transformer {
 public:
  // All parameters 0. Throws as check_config does.
  explicit Transformer(const TransformerConfig& config);
  // As initial_parameters draws them, narrowed.
  Transformer(const TransformerConfig& config, Generator& generator);
  ~Transformer();
  Transformer(Transformer&&) noexcept;
  Transformer& operator=(Transformer&&) noexcept;

  const TransformerConfig& config() const;
  const ParameterLayout& layout() const;
  // In the layout's order.
  std::span<T> values();
  std::span<const T> values() const;
  // One tensor's values, by name.
  std::span<T> values(const std::string& name);
  std::span<const T> values(const std::string& name) const;

  // [batch, seq_len, vocab_size]. All three throw std::invalid_argument "[transformer] ..." when sizes disagree, a
  // token is not 0 .. vocab_size - 1, or a learned table is shorter than seq_len.
  std::vector<T> logits(std::span<const std::int64_t> tokens, std::int64_t batch,
                        const ForwardOptions& options = {}) const;
  // [batch, seq_len]; the logits never stand in memory together.
  std::vector<TokenScore> score(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                                std::int64_t batch, const ForwardOptions& options = {}) const;
  // Returns the mean nll over the targets, in nats, and writes its gradient, in the layout's order. Keeps its scratch
  // memory for the next call: calls on one model must not overlap. Throws std::invalid_argument for an `untrainable`
  // config.
  double loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                           std::int64_t batch, std::span<T> gradient, int threads);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poslab
