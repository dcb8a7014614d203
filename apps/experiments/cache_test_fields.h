// What `cache-test` takes and gives: the field lists of its parameters, summary and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/rope_params.h"
#include "poslab/attention/kv_cache.h"
#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/rope/scalings.h"

namespace poslab::cache_test_fields {

enum class FullPass { so_far, whole_text };
constexpr auto words(FullPass) {
  return word_table<FullPass>({{FullPass::so_far, "so-far"}, {FullPass::whole_text, "whole-text"}});
}

enum class PositionsFrom { mask, row, mask_then_row, restart };
constexpr auto words(PositionsFrom) {
  return word_table<PositionsFrom>({{PositionsFrom::mask, "mask"},
                                    {PositionsFrom::row, "row"},
                                    {PositionsFrom::mask_then_row, "mask-then-row"},
                                    {PositionsFrom::restart, "restart"}});
}

enum class Verdict { consistent, diverges };
constexpr auto words(Verdict) {
  return word_table<Verdict>({{Verdict::consistent, "consistent"}, {Verdict::diverges, "diverges"}});
}

constexpr std::int64_t own_head_dim = 64;
constexpr std::int64_t own_original_length = 64;
inline const RopeFallbacks fallbacks{
    .rope_type = dynamic_scaling, .head_dim = own_head_dim, .original_max_position_embeddings = own_original_length};
constexpr RopeHelp help{.rope_type = "how the frequencies are scaled; absent: the model's, else dynamic",
                        .head_dim = "channels of one attention head; absent: the model's, else 64",
                        .original_max_position_embeddings =
                            "length of pre-training; absent: the model's, else max_position_embeddings, else 64"};

struct Params {
  PositionEncoding encoding;
  MethodParams method;
  CachePolicy policy = CachePolicy::keep;
  FullPass full_pass = FullPass::so_far;
  std::optional<std::int64_t> prompt_len, seq_len, previous_length;
  std::int64_t padding = 0, packed = 0;
  PositionsFrom positions_from = PositionsFrom::mask;
  bool see_before = false;
  RopeParams rope;
  std::optional<RopeLayout> layout;
  std::int64_t n_heads = 2;
  std::optional<std::int64_t> n_kv_heads;
  std::int64_t seed = 1;
  double tolerance = 1e-9;

  static void fields(auto& self, auto&& field) {
    field("encoding", self.encoding, "what tells queries and keys their positions");
    field("policy", self.policy, "what happens to cached keys when the frequencies change");
    field("full_pass", self.full_pass,
          "what a step is compared with: a pass over the text so far, or one over the whole text");
    field("prompt_len", self.prompt_len,
          "tokens of the first pass; absent: 16 less than the original length, or seq_len - 1", "tokens");
    field("seq_len", self.seq_len, "tokens after the last step; absent: 32 more than the original length", "tokens");
    field("previous_length", self.previous_length,
          "longest pass of an earlier request in the same process, whose base a growing one may keep; absent: none",
          "tokens");
    field("padding", self.padding, "padding to the left of the text", "tokens");
    field("packed", self.packed, "tokens of another text packed before this one in the same row", "tokens");
    field("positions_from", self.positions_from,
          "mask: counted from the text's first token; row: padding and packed text count too; mask-then-row: decoding "
          "counts otherwise than the prompt; restart: decoding counts from 0 again");
    field("see_before", self.see_before, "the mask forgets to hide padding and packed text");
    RopeParams::fields(self.rope, field, help);
    field("layout", self.layout, "which channels form a pair; absent: the model's, else interleaved");
    field("n_heads", self.n_heads, "heads of queries");
    field("n_kv_heads", self.n_kv_heads, "heads of keys, each shared by a group; absent: n_heads");
    field("seed", self.seed, "seed of the draws: queries, keys, keys before the text, a table");
    field("tolerance", self.tolerance, "differences of scores and weights up to here count as rounding");
    MethodParams::fields(self.method, field);
  }
};

struct Summary {
  Verdict verdict = Verdict::consistent;
  std::optional<std::int64_t> first_divergence;
  double max_score_diff = 0, max_weight_diff = 0;
  std::int64_t steps = 0, frequency_changes = 0, total_keys_redone = 0;
  std::optional<RopeType> resolved_rope_type;
  std::optional<double> resolved_factor, resolved_original_length;
  std::int64_t resolved_prompt_len = 0, resolved_seq_len = 0;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("verdict", self.verdict, "whether cached decoding agrees with the full pass at every step");
    field("first_divergence", self.first_divergence, "the step at which they part (null: never)", "tokens");
    field("max_score_diff", self.max_score_diff, "largest difference between two scores");
    field("max_weight_diff", self.max_weight_diff, "largest difference between two attention weights");
    field("steps", self.steps, "tokens decoded one by one", "tokens");
    field("frequency_changes", self.frequency_changes, "steps at which the decoder's frequencies changed");
    field("total_keys_redone", self.total_keys_redone, "cached keys turned or computed anew, over all steps");
    field("resolved_rope_type", self.resolved_rope_type, "the scaling in effect");
    field("resolved_factor", self.resolved_factor, "its factor");
    field("resolved_original_length", self.resolved_original_length, "length of pre-training", "tokens");
    field("resolved_prompt_len", self.resolved_prompt_len, "tokens of the first pass", "tokens");
    field("resolved_seq_len", self.resolved_seq_len, "tokens after the last step", "tokens");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t step = 0, query_position = 0;
  double score_diff = 0, weight_diff = 0;
  std::int64_t keys_redone = 0;

  static void fields(auto& self, auto&& field) {
    field("step", self.step, "the decoded token's place in the text, from 0: tokens cached before it", "tokens");
    field("query_position", self.query_position, "the position that the decoder gave it", "tokens");
    field("score_diff", self.score_diff, "largest difference between its scores here and in the full pass");
    field("weight_diff", self.weight_diff, "largest difference between its attention weights");
    field("keys_redone", self.keys_redone, "cached keys turned or computed anew for it");
  }
};

}  // namespace poslab::cache_test_fields
