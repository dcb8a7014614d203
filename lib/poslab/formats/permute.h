// Query and key weights between the two layouts of a rotary pair: Hugging Face's half and GGUF's interleaved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/encodings/rope.h"

namespace poslab {

// Whether a tensor of a Llama-like model holds queries or keys that RoPE turns: "...q_proj.weight", "k_proj.bias", ...
// Absent: neither. Norms over a head's channels (q_norm, k_norm) move with them.
enum class RotatedTensor { query, key, query_norm, key_norm };
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
};

struct PermutedTensor {
  std::string name;
  std::int64_t heads = 0;
  std::int64_t moved_rows = 0;
};

// Writes `target` with the q and k tensors of `source` (a .safetensors file) in the other layout and all others as they
// are, metadata included; reads it again and turns it back, which must give the source's bytes. Throws
// std::invalid_argument "[permute] ..." for a file without such tensors, rows that are no n_heads * head_dim, fused
// tensors (qkv_proj, query_key_value, c_attn), or source and target the same file; std::runtime_error when writing
// fails.
std::vector<PermutedTensor> permute_file(const std::string& source, const std::string& target, RopeLayout from,
                                         RopeLayout to, const PermuteSizes& sizes);

}  // namespace poslab
