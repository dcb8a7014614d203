#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/cache_test_fields.h"
#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/attention/attention.h"
#include "poslab/attention/kv_cache.h"
#include "poslab/core/random.h"
#include "poslab/core/require.h"
#include "poslab/core/threads.h"
#include "poslab/methods/list.h"
#include "poslab/methods/positions.h"
#include "poslab/rope/scaling_formulas.h"

namespace poslab {
namespace {

using namespace cache_test_fields;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[cache-test] " + sentence); }

// The parameters with every fallback filled in.
struct Setup {
  Params p;
  std::optional<ResolvedRope> rope;
  std::int64_t head_dim = own_head_dim, n_kv_heads = 0, prompt_len = 0, seq_len = 0;
  RopeLayout layout = RopeLayout::interleaved;
  double score_scale = 0;

  std::int64_t before() const { return p.padding + p.packed; }
  std::int64_t query_width() const { return p.n_heads * head_dim; }
  std::int64_t key_width() const { return n_kv_heads * head_dim; }

  // The position that the decoder gives to token i of the text.
  std::int64_t position(std::int64_t i) const {
    const bool decoding = i >= prompt_len;
    switch (p.positions_from) {
      case PositionsFrom::mask:
        return i;
      case PositionsFrom::row:
        return before() + i;
      case PositionsFrom::mask_then_row:
        return decoding ? before() + i : i;
      case PositionsFrom::restart:
        return decoding ? i - prompt_len : i;
    }
    return i;
  }

  MethodModel model() const { return {p.method, head_dim, p.n_heads, head_dim, before() + seq_len, true}; }
  // Counted from the middle of the text, as in a model: the factors stay near 1.
  PairGrowth growth() const {
    if (!rope) return {};
    PairGrowth grown = p.encoding->growth(model(), rope->scaling.rotary_dim / 2);
    if (!grown) return {};
    return [grown, middle = static_cast<double>(seq_len / 2)](double position) { return grown(position - middle); };
  }

  RopeFrequencies frequencies(std::int64_t length) const {
    return rope ? rope_frequencies(rope->scaling, length) : RopeFrequencies{};
  }
};

constexpr RequireWithin require_within{"cache-test"};

Setup set_up(const Params& p) {
  constexpr std::int64_t most_tokens = 1 << 20;
  Setup s;
  s.p = p;
  double original = own_original_length;
  require_own_parameters("cache-test", *p.encoding, p.method);
  if (p.encoding->acts_on(Place::rotation)) {
    s.rope = resolve_rope(p.rope, fallbacks, p.seq_len);
    s.head_dim = s.rope->scaling.head_dim;
    s.layout = p.layout.value_or(s.rope->layout.value_or(RopeLayout::interleaved));
    const RopeScaling& scaling = s.rope->scaling;
    const bool states_length = scaling.original_max_position_embeddings || scaling.max_position_embeddings;
    if (states_length) original = original_length(scaling);
    if (scaling.rope_type->trained_on_stated_length) original = scaling.max_position_embeddings.value_or(original);
  } else if (p.rope.model) {
    refuse(fmt::format("model is read with rotations only, not with {}.", to_word(p.encoding)));
  } else {
    s.head_dim = p.rope.head_dim.value_or(own_head_dim);
  }
  require_within("head_dim", s.head_dim, 1, 1 << 16);
  require_within("n_heads", p.n_heads, 1, 1 << 10);
  s.n_kv_heads = p.n_kv_heads.value_or(p.n_heads);
  require_within("n_kv_heads", s.n_kv_heads, 1, p.n_heads);
  if (p.n_heads % s.n_kv_heads != 0) {
    refuse(fmt::format("n_heads {} is not divisible by n_kv_heads {}.", p.n_heads, s.n_kv_heads));
  }
  require_within("padding", p.padding, 0, most_tokens);
  require_within("packed", p.packed, 0, most_tokens);
  if (p.previous_length) require_within("previous_length", *p.previous_length, 1, most_tokens);
  const auto switch_at = static_cast<std::int64_t>(std::clamp(original, 1.0, static_cast<double>(most_tokens)));
  const std::int64_t prompt = std::max<std::int64_t>(1, switch_at - 16);
  s.seq_len = p.seq_len.value_or(std::max(switch_at, p.prompt_len.value_or(0)) + 32);
  s.prompt_len = p.prompt_len.value_or(std::min(prompt, s.seq_len - 1));
  require_within("seq_len", s.seq_len, 2, most_tokens);
  require_within("prompt_len", s.prompt_len, 1, s.seq_len - 1);
  constexpr std::int64_t most_values = 1 << 27;
  if (s.seq_len * s.query_width() > most_values || s.before() * s.key_width() > most_values) {
    refuse(fmt::format("seq_len {} x n_heads {} x head_dim {} is more than {} values.", s.seq_len, p.n_heads,
                       s.head_dim, most_values));
  }
  if (!(p.tolerance >= 0)) refuse(fmt::format("tolerance must be 0 or more but got {}.", p.tolerance));
  p.encoding->check(s.model());
  s.score_scale = (s.rope ? s.rope->softmax_multiplier : 1) / std::sqrt(static_cast<double>(s.head_dim));
  return s;
}

// What was drawn: the text's queries and keys before any position is known, and what stands before the text.
class Tokens {
 public:
  explicit Tokens(const Setup& s) : s_(s) {
    Generator generator(s.p.seed);
    queries_ = generator.normals(s.seq_len * s.query_width());
    keys_ = generator.normals(s.seq_len * s.key_width());
    keys_before_ = generator.normals(s.before() * s.key_width());
    const Method& method = *s.p.encoding;
    const std::vector<double> learned = initial_values(method, s.model(), generator);
    if (method.acts_on(Place::input)) added_ = method.input(s.model(), learned);
    if (method.acts_on(Place::score_bias)) bias_ = method.bias(s.model(), learned);
  }

  std::vector<double> query(std::int64_t i, std::int64_t position) const {
    return placed(queries_, i, s_.query_width(), position);
  }
  std::vector<double> key(std::int64_t i, std::int64_t position) const {
    return placed(keys_, i, s_.key_width(), position);
  }
  std::vector<double> key_before(std::int64_t i, std::int64_t position) const {
    return placed(keys_before_, i, s_.key_width(), position);
  }
  const std::shared_ptr<const PositionBias>& bias() const { return bias_; }

 private:
  // One token's vectors, with its position's added in every head where the method has such.
  std::vector<double> placed(const std::vector<double>& all, std::int64_t i, std::int64_t width,
                             std::int64_t position) const {
    std::vector<double> out(all.begin() + i * width, all.begin() + (i + 1) * width);
    if (!added_) return out;
    std::vector<double> seat(static_cast<std::size_t>(s_.head_dim));
    added_->fill(position, seat);
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += seat[c % seat.size()];
    return out;
  }

  const Setup& s_;
  std::vector<double> queries_, keys_, keys_before_;
  std::unique_ptr<const InputVectors> added_;
  std::shared_ptr<const PositionBias> bias_;
};

// A decoder that works through the text with a cache, as the parameters say.
class Decoder {
 public:
  Decoder(const Setup& s, const Tokens& tokens)
      : s_(s),
        tokens_(tokens),
        cache_(s.n_kv_heads, s.head_dim, s.layout, s.p.policy, s.growth()),
        growth_(s.growth()) {
    if (s.rope) state_.emplace(s.rope->scaling);
    if (state_ && s.p.previous_length) state_->at(*s.p.previous_length);
    std::vector<std::int64_t> kept(static_cast<std::size_t>(s.p.padding), 0);
    kept.resize(static_cast<std::size_t>(s.before()), 1);
    const std::vector<std::int64_t> from_mask = positions_from_mask(kept);
    std::vector<double> keys, positions;
    std::int64_t longest = 0;
    const auto add = [&](const std::vector<double>& key, std::int64_t position) {
      keys.insert(keys.end(), key.begin(), key.end());
      positions.push_back(static_cast<double>(position));
      longest = std::max(longest, position + 1);
    };
    for (std::int64_t i = 0; i < s.before(); ++i) {
      const std::int64_t position =
          s.p.positions_from == PositionsFrom::row ? i : from_mask[static_cast<std::size_t>(i)];
      add(tokens.key_before(i, position), position);
    }
    for (std::int64_t i = 0; i < s.prompt_len; ++i) add(tokens.key(i, s.position(i)), s.position(i));
    frequencies_ = frequencies(longest);
    cache_.append(keys, positions, frequencies_);
  }

  struct Step {
    AttentionTrace trace;  // over everything in the cache
    std::int64_t keys_redone = 0;
    bool changed = false;  // the frequencies
  };

  // Decodes token i of the text.
  Step decode(std::int64_t i) {
    const std::int64_t position = s_.position(i);
    const double at[] = {static_cast<double>(position)};
    const std::int64_t redone_before = cache_.keys_redone();
    RopeFrequencies now = frequencies(position + 1);
    Step step;
    step.changed = now.inv_freq != frequencies_.inv_freq;
    frequencies_ = std::move(now);
    cache_.append(tokens_.key(i, position), at, frequencies_);
    step.keys_redone = cache_.keys_redone() - redone_before;

    std::vector<double> query = tokens_.query(i, position);
    apply_rope<double>(query, query, s_.p.n_heads, s_.head_dim, at, frequencies_.inv_freq, s_.layout,
                       frequencies_.attention_factor);
    if (growth_) {
      for (std::int64_t head = 0; head < s_.p.n_heads; ++head) {
        grow_pairs<double>({query.data() + head * s_.head_dim, static_cast<std::size_t>(s_.head_dim)}, s_.head_dim, at,
                           growth_, false, s_.layout);
      }
    }
    AttentionOptions options;
    options.bias = tokens_.bias();
    options.query_positions = {at[0]};
    options.key_positions = cache_.positions();
    options.visible = {{s_.p.see_before ? 0 : s_.before(), cache_.size()}};
    options.score_scale = s_.score_scale;
    step.trace =
        attention_reference({s_.p.n_heads, s_.n_kv_heads, 1, cache_.size(), s_.head_dim}, options,
                            heads_first<const double>(query.data(), 1, s_.head_dim), cache_.keys(), cache_.keys());
    return step;
  }

 private:
  RopeFrequencies frequencies(std::int64_t length) {
    if (!state_) return {};
    return state_->at(s_.p.policy == CachePolicy::pin ? s_.position(s_.seq_len - 1) + 1 : length);
  }

  const Setup& s_;
  const Tokens& tokens_;
  KeyCache cache_;
  PairGrowth growth_;
  std::optional<RopeState> state_;
  RopeFrequencies frequencies_;
};

// The text alone, from position 0, in one pass by a fresh process.
class Truth {
 public:
  Truth(const Setup& s, const Tokens& tokens) : s_(s), tokens_(tokens) {
    for (std::int64_t i = 0; i < s.seq_len; ++i) {
      const std::vector<double> key = tokens.key(i, i);
      keys_.insert(keys_.end(), key.begin(), key.end());
    }
  }

  AttentionTrace step(std::int64_t i) const {
    AttentionOptions options;
    options.bias = tokens_.bias();
    if (s_.rope) {
      RopeFrequencies f = s_.frequencies(s_.p.full_pass == FullPass::so_far ? i + 1 : s_.seq_len);
      options.rotation = {std::move(f.inv_freq), s_.layout, f.attention_factor, s_.growth()};
    }
    options.score_scale = s_.score_scale;
    const std::vector<double> query = tokens_.query(i, i);
    const HeadView<const double> keys{keys_.data(), s_.head_dim, s_.key_width()};
    return attention_reference({s_.p.n_heads, s_.n_kv_heads, 1, i + 1, s_.head_dim}, options,
                               heads_first<const double>(query.data(), 1, s_.head_dim), keys, keys);
  }

 private:
  const Setup& s_;
  const Tokens& tokens_;
  std::vector<double> keys_;  // [seq_len, n_kv_heads, head_dim]
};

Row compare(const Setup& s, std::int64_t i, const Decoder::Step& step, const AttentionTrace& truth) {
  Row row{i, s.position(i), 0, 0, step.keys_redone};
  const std::int64_t seen = i + 1, cached = s.before() + seen;
  for (std::int64_t head = 0; head < s.p.n_heads; ++head) {
    for (std::int64_t j = 0; j < cached; ++j) {
      const auto here = static_cast<std::size_t>(head * cached + j);
      if (j < s.before()) {
        row.weight_diff = std::max(row.weight_diff, step.trace.weights[here]);
        continue;
      }
      const auto there = static_cast<std::size_t>(head * seen + j - s.before());
      row.score_diff = std::max(row.score_diff, std::abs(step.trace.scores[here] - truth.scores[there]));
      row.weight_diff = std::max(row.weight_diff, std::abs(step.trace.weights[here] - truth.weights[there]));
    }
  }
  return row;
}

// What explains a difference, or makes one impossible.
std::string reason(const Setup& s, const Summary& summary) {
  std::string text;
  const bool consistent = summary.verdict == Verdict::consistent;
  if (s.p.positions_from == PositionsFrom::restart) {
    text += consistent ? "Counting from 0 again while decoding does not matter here.\n"
                       : "Decoding counts from 0 again: the cache's length must be added to its positions.\n";
  } else if (s.before() > 0 && s.p.positions_from == PositionsFrom::mask_then_row) {
    text += consistent ? "Prompt and decoding count differently, which does not matter here.\n"
                       : fmt::format(
                             "The prompt counts from the mask and decoding from the row: a gap of {} positions "
                             "opens between them.\n",
                             s.before());
  } else if (s.before() > 0 && s.p.positions_from == PositionsFrom::row) {
    text += consistent ? "A shift of all positions does not matter to this encoding.\n"
                       : fmt::format("Every position is {} too large; positions come from the mask (cumsum - 1).\n",
                                     s.before());
  }
  if (s.p.see_before && s.before() > 0) text += "The text sees what stands before it: the mask must hide that.\n";
  if (s.rope && s.p.previous_length && !consistent &&
      s.rope->scaling.rope_type->follows_length == FollowsLength::growing) {
    text += fmt::format("The earlier request of {} tokens may have left its larger base behind (previous_length).\n",
                        *s.p.previous_length);
  }
  if (s.rope && summary.frequency_changes > 0) {
    switch (s.p.policy) {
      case CachePolicy::keep:
        text +=
            "The frequencies change with the length, but cached keys keep the turn of the pass they came in.\n"
            "--policy re-rotate or rebuild repairs it for every step, pin keeps one set of frequencies.";
        break;
      case CachePolicy::re_rotate:
        text +=
            "Keys are cached before turning and turned at every step. In a deep model the values of older tokens "
            "still come from the frequencies of their time.";
        break;
      case CachePolicy::rebuild:
        text += fmt::format("The cache was filled anew {} times, {} keys in all.", summary.frequency_changes,
                            summary.total_keys_redone);
        break;
      case CachePolicy::pin:
        break;
    }
  }
  if (s.rope && s.p.policy == CachePolicy::pin) {
    text += consistent ? "One set of frequencies serves the whole sequence."
                       : "One set of frequencies serves the whole sequence: nothing breaks on the way, but a shorter "
                         "text is not read as a full pass would read it.";
  }
  return text;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  const Setup s = set_up(p);
  const Tokens tokens(s);
  const Truth truth(s, tokens);
  Decoder decoder(s, tokens);

  TypedReport<Summary, Row> report;
  Summary& summary = report.summary;
  summary.steps = s.seq_len - s.prompt_len;
  report.rows.resize(static_cast<std::size_t>(summary.steps));
  // The decoder goes one step after another; the full passes of a block are independent of each other.
  constexpr std::int64_t block = 32;
  for (std::int64_t first = 0; first < summary.steps; first += block) {
    const std::int64_t n = std::min(block, summary.steps - first);
    std::vector<Decoder::Step> steps;
    for (std::int64_t i = first; i < first + n; ++i) {
      steps.push_back(decoder.decode(s.prompt_len + i));
      summary.frequency_changes += steps.back().changed;
      summary.total_keys_redone += steps.back().keys_redone;
    }
    parallel_for(n, context.threads, [&](std::int64_t i) {
      const std::int64_t token = s.prompt_len + first + i;
      report.rows[static_cast<std::size_t>(first + i)] =
          compare(s, token, steps[static_cast<std::size_t>(i)], truth.step(token));
    });
    context.progress(static_cast<double>(first + n) / static_cast<double>(summary.steps));
  }
  for (const Row& row : report.rows) {
    summary.max_score_diff = std::max(summary.max_score_diff, row.score_diff);
    summary.max_weight_diff = std::max(summary.max_weight_diff, row.weight_diff);
    if (!summary.first_divergence && std::max(row.score_diff, row.weight_diff) > p.tolerance) {
      summary.first_divergence = row.step;
    }
  }
  summary.verdict = summary.first_divergence ? Verdict::diverges : Verdict::consistent;
  summary.resolved_prompt_len = s.prompt_len;
  summary.resolved_seq_len = s.seq_len;
  if (s.rope) {
    const RopeScaling& scaling = s.rope->scaling;
    summary.resolved_rope_type = scaling.rope_type;
    summary.resolved_factor = scaling.factor;
    if (scaling.original_max_position_embeddings || scaling.max_position_embeddings) {
      summary.resolved_original_length = original_length(scaling);
    }
    summary.warnings = s.rope->warnings;
  }

  report.conclusion =
      fmt::format("A prompt of {} tokens, then steps {} .. {} with a cache, against a pass over {}.\n", s.prompt_len,
                  s.prompt_len, s.seq_len - 1, p.full_pass == FullPass::so_far ? "the text so far" : "the whole text");
  const double largest = std::max(summary.max_score_diff, summary.max_weight_diff);
  if (summary.first_divergence) {
    report.conclusion +=
        fmt::format("They part at step {}: scores differ by up to {:.4g}, attention weights by up to {:.4g}.\n",
                    *summary.first_divergence, summary.max_score_diff, summary.max_weight_diff);
  } else if (largest == 0) {
    report.conclusion += "They agree at every step, to the last bit.\n";
  } else {
    report.conclusion +=
        fmt::format("They agree at every step (largest difference {:.1e}, which is rounding).\n", largest);
  }
  report.conclusion += reason(s, summary);
  if (summary.first_divergence && summary.steps > 1) {
    Picture picture;
    picture.title = "cached decoding against the full pass";
    picture.x_label = "step (tokens)";
    picture.y_label = "largest difference";
    picture.series = {{"score", {}, {}}, {"weight", {}, {}}};
    for (const Row& row : report.rows) {
      for (Series& series : picture.series) series.x.push_back(static_cast<double>(row.step));
      picture.series[0].y.push_back(row.score_diff);
      picture.series[1].y.push_back(row.weight_diff);
    }
    report.pictures.push_back(std::move(picture));
  }
  return report;
}

Experiment describe_cache_test() {
  Experiment e = describe<Params, Summary, Row>(
      "cache-test", "Does decoding with cached keys agree with a full pass, step by step?",
      "poslab cache-test --model phi-3.5-mini --prompt-len 4090 --seq-len 4100", run);
  e.verdicts = {"consistent", "diverges"};
  e.excluded = [](const Record& record) {
    const auto p = from_record<Params>(record);
    return p.encoding->acts_on(Place::rotation) ? rope_type_left_out(p.rope, fallbacks, p.seq_len) : std::string();
  };
  return e;
}

const Registrar registrar("cache-test", describe_cache_test);

}  // namespace
}  // namespace poslab
