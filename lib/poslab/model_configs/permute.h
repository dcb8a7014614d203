// Query and key weights between the two layouts of a rotary pair: Hugging Face's half and GGUF's interleaved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/rope/rope.h"

namespace poslab {

// How a tensor that holds q, k and v together is cut, in blocks of head_dim rows.
//   stacked  all queries, all keys, all values (Phi-3's qkv_proj, Wqkv, ChatGLM's query_key_value)
//   grouped  for each key head its queries, itself, its value (query_key_value of GPT-NeoX and Falcon)
enum class FusedOrder { stacked, grouped };
constexpr auto words(FusedOrder) {
  return word_table<FusedOrder>({{FusedOrder::stacked, "stacked"}, {FusedOrder::grouped, "grouped"}});
}

// What of a tensor's rows RoPE turns, by its name: "...q_proj.weight", "k_proj.bias", ... Absent: nothing, as in vision
// and audio parts. Norms over a head's channels (q_norm, k_norm) move with them; `fused_stacked` and `fused_grouped`
// hold q, k and v.
enum class RotatedTensor { query, key, query_norm, key_norm, fused_stacked, fused_grouped };
std::optional<RotatedTensor> rotated_tensor(std::string_view name);

// Row r of the result is row source[r] of the tensor: in each head of head_dim rows the first rotary_dim go from one
// layout to the other, so that pair i stands in rope_pair_channels(to, rotary_dim, i). Throws std::invalid_argument
// "[permute] ..." for an odd rotary_dim, one above head_dim, or sizes below 1.
std::vector<std::int64_t> layout_rows(RopeLayout from, RopeLayout to, std::int64_t n_heads, std::int64_t head_dim,
                                      std::int64_t rotary_dim);

// The rows of `bytes` (rows.size() of them) in that order.
std::vector<std::byte> permute_rows(std::span<const std::byte> bytes, std::span<const std::int64_t> rows);

struct PermuteSizes {
  std::int64_t n_heads = 0, n_kv_heads = 0, head_dim = 0, rotary_dim = 0;
  std::optional<FusedOrder> fused = {};  // absent: by the tensor's name
};

struct PermutedTensor {
  std::string name;
  std::int64_t heads = 0;  // of head_dim rows, values included
  std::int64_t moved_rows = 0;
};

// The same order for a tensor of that kind with `rows` rows, and the heads it is cut into. Throws std::invalid_argument
// "[permute] ..." naming the tensor when the rows are no whole number of the sizes' heads.
std::vector<std::int64_t> tensor_rows(std::string_view name, RotatedTensor tensor, std::int64_t rows, RopeLayout from,
                                      RopeLayout to, const PermuteSizes& sizes);

// Writes `target` with the q and k tensors of `source` in the other layout and all others as they are, metadata
// included; reads it again and turns it back, which must give the source's bytes. `source` is a .safetensors file, or
// an index of shards: `target` is then a folder, made if need be, that receives each shard and the index under their
// own names. Throws std::invalid_argument "[permute] ..." for a source without such tensors or with quantised ones
// (q_proj.qweight), rows that do not fit the sizes, or source and target the same file; std::runtime_error when writing
// fails.
std::vector<PermutedTensor> permute_file(const std::string& source, const std::string& target, RopeLayout from,
                                         RopeLayout to, const PermuteSizes& sizes);

}  // namespace poslab
