// How well a transformer predicts a text, by the length of its context and the position of each token in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/models/transformer.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// Tokens; longer contexts are refused before anything of their size is counted.
inline constexpr std::int64_t longest_context = std::int64_t{1} << 30;

// What a model is asked: after tokens [0, i] of its window it should say targets[i]; no_target asks nothing.
struct EvaluationText {
  std::vector<std::int64_t> tokens, targets;  // of equal size
  std::optional<std::int64_t> start = {};     // a token that stands in the place of every window's first one

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Every token of a running text asks for the next one: size() is one less than the text's.
EvaluationText next_tokens(std::span<const std::int64_t> text);

// How a text is cut into windows of seq_len tokens: one that begins at token b is fed tokens [b, b + seq_len) and
// scored on their targets. A window that the text does not fill is left out.
//
//   chunks   windows side by side, every target scored
//   sliding  windows `stride` apart; each scores what no earlier one has scored
//   last     windows `stride` apart; each scores its last `stride` targets, so that every one has at least
//            seq_len - stride tokens before its own
enum class EvaluationMode { chunks, sliding, last };
constexpr auto words(EvaluationMode) {
  return word_table<EvaluationMode>(
      {{EvaluationMode::chunks, "chunks"}, {EvaluationMode::sliding, "sliding"}, {EvaluationMode::last, "last"}});
}

// Targets from position `scored_from` on count.
struct EvaluationWindow {
  std::int64_t first = 0, length = 0, scored_from = 0;
};

// In the order of the text, empty where `size` is below seq_len. `stride` is read by sliding and last. Throws
// std::invalid_argument "[evaluate] ..." for a seq_len below 1 and a stride outside 1 .. seq_len.
std::vector<EvaluationWindow> evaluation_windows(EvaluationMode mode, std::int64_t size, std::int64_t seq_len,
                                                 std::int64_t stride);

// Chunks of `length` that cover a whole text of `size` tokens, the last as short as it comes.
std::vector<EvaluationWindow> covering_chunks(std::int64_t size, std::int64_t length);

struct ScoredToken {
  std::int64_t index = 0;     // of the target in the text
  std::int64_t position = 0;  // in the window: 0 has seen one token
  double nll = 0;             // -ln p(target), nats
  bool right = false;         // the likeliest token is the target
};

// One entry per scored target, window after window. Windows of one length run together, some thousands of tokens at a
// time: memory grows with the longest window. `progress` receives 0 .. 1. Results do not depend on options.threads.
// Throws as Transformer::score does.
template <class T>
std::vector<ScoredToken> score_windows(
    const Transformer<T>& model, const EvaluationText& text, std::span<const EvaluationWindow> windows,
    const ForwardOptions& options, const std::function<void(double)>& progress = [](double) {});

struct PositionBucket {
  std::int64_t first = 0, last = 0;  // positions, both included
};

// From ascending edges: [edge, next edge) each, the last one up to seq_len; edges from seq_len on are left out. Throws
// std::invalid_argument "[evaluate] ..." when there is none, or they are negative or do not ascend.
std::vector<PositionBucket> position_buckets(std::span<const std::int64_t> edges, std::int64_t seq_len);

// 0, 64, 128, 256, ... below seq_len.
std::vector<std::int64_t> doubling_edges(std::int64_t seq_len);

struct MeanLoss {
  std::int64_t tokens = 0;
  double mean_nll = 0;  // nats per token
  // sqrt(s^2 / tokens), s^2 the unbiased variance of single tokens' nll; absent below two tokens.
  std::optional<double> standard_error;
};

// Of values in a fixed order, in two passes. tokens = 0 where there are none.
MeanLoss mean_loss(std::span<const double> nll);

// The length a model was trained at before any stretching: rope.original_max_position_embeddings, else
// max_position_embeddings.
std::int64_t trained_length(const TransformerConfig& config);

// The frequencies before any stretching; absent for encodings that turn no pairs.
std::optional<RopeFrequencies> unscaled_frequencies(const TransformerConfig& config);

}  // namespace poslab
