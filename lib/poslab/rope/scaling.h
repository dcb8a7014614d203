// How deployed models stretch RoPE. A scaling is one row (struct Scaling) in one file under rope/scalings/; RopeType
// refers to a row, and rope/scalings.h lists the rows. A scaling maps (theta, dim, its parameters) to inverse
// frequencies in double and to the factor that multiplies cos and sin.
//
// Every frequency function follows upstream's arithmetic also for values that make little sense (factor < 1, beta_fast
// below beta_slow, an odd rotary_dim), as model files need; refusing them in flags is the caller's. What Hugging Face
// transformers does is the rule wherever a paper and its deployed code differ: the scalings that it knows were checked
// against transformers 5.16 run on 110 configs (tests/golden/rope_frequencies.json).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab {

struct Scaling;
struct GgmlRope;
extern const Scaling default_scaling;

// A row of the list, as a value and as a field.
class RopeType {
 public:
  constexpr RopeType() : row_(&default_scaling) {}
  constexpr RopeType(const Scaling& row) : row_(&row) {}

  static std::vector<std::string_view> words();
  static RopeType from_word(std::string_view word);
  std::string_view word() const;

  const Scaling* operator->() const { return row_; }
  bool is_scaled() const { return row_ != &default_scaling; }
  friend constexpr bool operator==(RopeType a, RopeType b) { return a.row_ == b.row_; }

 private:
  const Scaling* row_;
};

// The ramp between kept and stretched pairs: `code` is linear in the pair's index (every deployed implementation),
// `paper` linear in original length / wavelength.
enum class YarnRamp { code, paper };
constexpr auto words(YarnRamp) { return word_table<YarnRamp>({{YarnRamp::code, "code"}, {YarnRamp::paper, "paper"}}); }

// The helps that name a fallback, which differs between experiments.
struct RopeHelp {
  std::string_view model =
      "a config.json or GGUF file, a folder with either, or a preset; supplies what no flag gives; absent: none";
  std::string_view rope_type = "how the frequencies are scaled; absent: the model's, else default";
  std::string_view head_dim = "channels of one attention head; absent: the model's, else 128";
  std::string_view original_max_position_embeddings =
      "length of pre-training; absent: the model's, else max_position_embeddings, else unknown";
  std::string_view factor = "how many times longer; absent: the model's, else max(1, seq_len / original length)";
};

// The parameters as somebody gives them: each may be absent.
struct AsGiven {
  template <class T>
  using Value = std::optional<T>;
  using Length = std::optional<std::int64_t>;
  using List = std::optional<std::vector<double>>;
  static constexpr std::nullopt_t start(auto) { return std::nullopt; }
};
// The parameters in effect: only what has no value anywhere is absent.
struct AsResolved {
  template <class T>
  using Value = T;
  using Length = std::optional<double>;
  using List = std::vector<double>;
  static constexpr auto start(auto value) { return value; }
};

// The parameters of one RoPE set, named as in Hugging Face configs: the one field list of flags, models and scalings.
template <class As>
struct RopeFields {
  template <class T>
  using Value = typename As::template Value<T>;

  Value<RopeType> rope_type = As::start(RopeType());
  std::optional<double> factor;
  Value<double> rope_theta = As::start(10000.0);
  Value<std::int64_t> head_dim = As::start(std::int64_t{128});
  // Channels that rotate; frequencies are spread over it, or over head_dim where the scaling says so.
  Value<std::int64_t> rotary_dim = As::start(std::int64_t{128});
  Value<double> partial_rotary_factor = As::start(1.0);
  typename As::Length original_max_position_embeddings;  // length of pre-training, tokens
  typename As::Length max_position_embeddings;
  std::optional<double> attention_factor;  // replaces the computed one
  // Rotations within the original length, at the ends of the ramp.
  Value<double> beta_fast = As::start(32.0), beta_slow = As::start(1.0);
  std::optional<double> mscale, mscale_all_dim;
  Value<bool> truncate = As::start(true);  // round the ramp's ends to whole pairs
  Value<YarnRamp> yarn_ramp = As::start(YarnRamp::code);
  // Rotations within the original length, again.
  Value<double> low_freq_factor = As::start(1.0), high_freq_factor = As::start(4.0);
  typename As::List short_factor, long_factor;  // [pairs]

  // f(name, help, unit, that member of every struct in `of`).
  static void each(const RopeHelp& help, auto&& f, auto&... of) {
    f("rope_type", help.rope_type, "", of.rope_type...);
    f("factor", help.factor, "", of.factor...);
    f("rope_theta", "base of the frequencies; absent: the model's, else 10000", "", of.rope_theta...);
    f("head_dim", help.head_dim, "channels", of.head_dim...);
    f("rotary_dim", "channels that rotate, even; absent: the model's, else head_dim * partial_rotary_factor",
      "channels", of.rotary_dim...);
    f("partial_rotary_factor",
      "share of the channels that rotate (or of the pairs, where a rope_type spreads over the head); absent: the "
      "model's, else 1",
      "", of.partial_rotary_factor...);
    f("original_max_position_embeddings", help.original_max_position_embeddings, "tokens",
      of.original_max_position_embeddings...);
    f("max_position_embeddings",
      "length the config states, which some types take for the trained one; absent: the model's, else the original "
      "length",
      "tokens", of.max_position_embeddings...);
    f("attention_factor",
      "multiplies cos and sin in place of the type's formula; absent: the model's, else the formula", "",
      of.attention_factor...);
    f("beta_fast", "pairs with more rotations within the original length are kept; absent: the model's, else 32",
      "turns", of.beta_fast...);
    f("beta_slow", "pairs with fewer rotations within it are stretched in full; absent: the model's, else 1", "turns",
      of.beta_slow...);
    f("mscale", "with mscale_all_dim gives the attention factor; absent: the model's, else none", "", of.mscale...);
    f("mscale_all_dim", "see mscale; absent: the model's, else none", "", of.mscale_all_dim...);
    f("truncate", "round the ends of the ramp to whole pairs; absent: the model's, else yes", "", of.truncate...);
    f("yarn_ramp", "ramp over the pairs as in every code, or over the rotations as in the paper; absent: code", "",
      of.yarn_ramp...);
    f("low_freq_factor", "pairs with fewer rotations are stretched in full; absent: the model's, else 1", "turns",
      of.low_freq_factor...);
    f("high_freq_factor", "pairs with more rotations are kept; absent: the model's, else 4", "turns",
      of.high_freq_factor...);
    f("short_factor", "divisor of each pair up to the original length; absent: the model's, else none", "",
      of.short_factor...);
    f("long_factor", "divisor of each pair beyond it; absent: the model's, else none", "", of.long_factor...);
  }
  static void fields(auto& self, auto&& field, const RopeHelp& help = {}) {
    each(
        help,
        [&](std::string_view name, std::string_view text, std::string_view unit, auto& value) {
          field(name, value, text, unit);
        },
        self);
  }
};
using RopeScaling = RopeFields<AsResolved>;

struct RopeFrequencies {
  std::vector<double> inv_freq;  // [rotary_dim / 2], radians per token
  double attention_factor = 1;   // multiplies cos and sin, so logits carry its square
};

// A wrong way to compute a scaling that engines were seen to take.
struct ScalingMistake {
  std::string word;                    // what reports show, "linear factor inverted", say
  std::string detail;                  // the values behind it, for a reader; may be empty
  std::optional<RopeScaling> scaling;  // the parameters that give these frequencies; absent: none do
  RopeFrequencies frequencies;
};

// When the frequencies depend on the length of the pass.
enum class FollowsLength {
  no,
  beyond_original,  // one set up to the original length, another in passes beyond it
  growing,          // the base grows with the longest pass so far, from the trained length on
};

// What a config.json says of a scaling, and what transformers makes of it.
struct ConfigForm {
  // Keys that must and may stand there, named as in RopeFields, in the order they are written and shown. rope_theta and
  // partial_rotary_factor go with every type.
  std::vector<std::string_view> required = {}, optional = {};
  bool in_transformers = true;       // transformers knows the word
  bool factor_from_lengths = false;  // a factor that is null is max_position_embeddings / the original length
  bool compares_lengths = false;     // transformers warns where a factor differs from that ratio
  bool uses_head_dim_as_is = false;  // transformers fails where head_dim is null
  std::vector<std::string_view> reals = {}, integers = {};           // keys that transformers expects to be written so
  const Scaling* with_alpha = nullptr;                               // what HunYuan's key alpha makes of it
  std::string (*error)(const RopeScaling&) = nullptr;                // why these values have no frequencies, or empty
  std::vector<std::string> (*doubts)(const RopeScaling&) = nullptr;  // sentences about values that make little sense
  // Where the attention factor comes from when it is not given; nullptr: it is 1.
  std::string_view (*attention_rule)(const RopeScaling&) = nullptr;
  // What config.json has no name for, or empty; nullptr: it has one.
  std::string_view (*unnamed)(const RopeScaling&) = nullptr;
};

// What inference engines know of a scaling, and what `plan` says about it.
struct EngineForm {
  bool in_gguf = false;                 // a word of GGUF's rope.scaling.type
  bool in_vllm = true;                  // vLLM runs what transformers knows
  bool vllm_multiplies_length = false;  // vLLM takes the config's own length times the factor
  // What ggml and vLLM compute from the factor alone, and multiply the given attention factor by; nullptr: nothing.
  double (*attention_formula)(double factor) = nullptr;
  std::string (*llama_cpp_flags)(const GgmlRope&) = nullptr;  // each followed by a space; nullptr: none are needed
  std::string (*note)(const RopeScaling&, double attention_factor, std::int64_t target_length) = nullptr;
  std::string (*short_text_cost)(double trained_length) = nullptr;  // nullptr: worked out from the frequencies
};

// A row is told from another by its address: a braced list of rows must not quietly make copies.
struct NeverCopied {
  NeverCopied() = default;
  NeverCopied(const NeverCopied&) = delete;
};

using FollowedLength = std::optional<std::int64_t>;  // tokens; absent: the model as loaded

struct Scaling {
  std::string_view word, title;      // title: what people call it
  std::string_view sentence;         // what it does, without a full stop
  std::string_view source, used_by;  // paper and equation; models and engines
  bool uses_factor = true;
  bool needs_original_length = false;
  bool trained_on_stated_length = false;  // takes max_position_embeddings for the trained length, where that is known
  bool spreads_over_head = false;         // frequencies cover head_dim; pairs beyond partial_rotary_factor never rotate
  bool part_of_training = false;          // models are trained with it: without its factor it is what training saw
  bool only_when_asked = false;           // `plan` leaves it out unless its word is given
  FollowsLength follows_length = FollowsLength::no;
  RopeFrequencies (*frequencies)(const RopeScaling&, FollowedLength) = nullptr;
  // As transformers computes it in f32, [pairs]; nullptr: the double values, narrowed once.
  std::vector<float> (*hf_f32)(const RopeScaling&, FollowedLength) = nullptr;
  // Changes the parameters of plain frequencies so that ggml computes this; false, or nullptr: ggml cannot.
  bool (*to_ggml)(GgmlRope&, const RopeScaling&, FollowedLength) = nullptr;
  double (*theta)(const RopeScaling&, FollowedLength) = nullptr;  // the new base, where the scaling is nothing else
  std::string (*lacks)(const RopeScaling&) = nullptr;             // a sentence on what these parameters lack, or empty
  std::vector<ScalingMistake> (*mistakes)(const RopeScaling& meant, FollowedLength) = nullptr;
  std::string (*length_note)(double theta, std::int64_t target_length, double trained_length) = nullptr;
  ConfigForm config = {};
  EngineForm engines = {};
  NeverCopied never_copied = {};

  // Whether a config.json with this scaling may have the key.
  bool has_key(std::string_view key) const;
};

// The frequencies that scaling.rope_type gives. Throws std::invalid_argument "[rope_scaling] ..." for a parameter that
// is absent, or for which the formula has no value.
RopeFrequencies rope_frequencies(const RopeScaling& scaling, FollowedLength seq_len = std::nullopt);

// The tokens that count as trained: max_position_embeddings where the scaling goes by it, else original_length.
double trained_length(const RopeScaling& scaling);

}  // namespace poslab
