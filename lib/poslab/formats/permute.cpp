#include "poslab/formats/permute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "poslab/core/printable.h"
#include "poslab/formats/safetensors.h"

namespace poslab {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(fmt::format("[permute] {}.", what)); }

bool fused(std::string_view name) {
  return name.find("qkv_proj.") != name.npos || name.find("query_key_value.") != name.npos ||
         name.find("c_attn.") != name.npos || name.find("Wqkv.") != name.npos;
}

std::int64_t heads_of(RotatedTensor tensor, const PermuteSizes& sizes) {
  return tensor == RotatedTensor::query ? sizes.n_heads : tensor == RotatedTensor::key ? sizes.n_kv_heads : 1;
}

// The tensors of a file with q and k turned from one layout to the other; `permuted` owns the bytes that changed.
std::vector<SafetensorsBytes> turned(const SafetensorsFile& file, RopeLayout from, RopeLayout to,
                                     const PermuteSizes& sizes, std::deque<std::vector<std::byte>>& permuted,
                                     std::vector<PermutedTensor>& changed) {
  std::vector<SafetensorsBytes> out;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    std::span<const std::byte> bytes = tensor.bytes;
    if (fused(tensor.name))
      fail(fmt::format("tensor {} holds q, k and v together, which is not supported", printable(tensor.name)));
    if (const auto rotated = rotated_tensor(tensor.name)) {
      const std::int64_t heads = heads_of(*rotated, sizes);
      const auto rows = layout_rows(from, to, heads, sizes.head_dim, sizes.rotary_dim);
      if (tensor.shape.empty() || tensor.shape[0] != heads * sizes.head_dim) {
        fail(fmt::format("tensor {} has {} rows but {} heads of {} channels need {}", printable(tensor.name),
                         tensor.shape.empty() ? 1 : tensor.shape[0], heads, sizes.head_dim, heads * sizes.head_dim));
      }
      bytes = permuted.emplace_back(permute_rows(bytes, rows));
      std::int64_t moved = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) moved += rows[r] != static_cast<std::int64_t>(r);
      changed.push_back({tensor.name, heads, moved});
    }
    out.push_back({tensor.name, tensor.dtype_word, tensor.shape, bytes});
  }
  if (changed.empty()) fail(fmt::format("{} has no q_proj or k_proj tensors", file.path()));
  return out;
}

}  // namespace

std::optional<RotatedTensor> rotated_tensor(std::string_view name) {
  const std::size_t end = name.rfind('.');
  const std::string_view kind = end == name.npos ? std::string_view() : name.substr(end + 1);
  if (kind != "weight" && kind != "bias") return std::nullopt;
  const std::string_view owner = name.substr(0, end);
  const auto is = [&](std::string_view word) {
    return owner.ends_with(word) && (owner.size() == word.size() || owner[owner.size() - word.size() - 1] == '.');
  };
  if (is("q_proj")) return RotatedTensor::query;
  if (is("k_proj")) return RotatedTensor::key;
  if (is("q_norm")) return RotatedTensor::query_norm;
  if (is("k_norm")) return RotatedTensor::key_norm;
  return std::nullopt;
}

std::vector<std::int64_t> layout_rows(RopeLayout from, RopeLayout to, std::int64_t n_heads, std::int64_t head_dim,
                                      std::int64_t rotary_dim) {
  if (n_heads < 1 || head_dim < 1 || rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    fail(
        fmt::format("{} heads of {} channels, {} of them turning: rotary_dim must be even and at most head_dim, "
                    "and both above 0",
                    n_heads, head_dim, rotary_dim));
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n_heads * head_dim));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r);
  for (std::int64_t head = 0; head < n_heads; ++head) {
    const std::int64_t begin = head * head_dim;
    for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
      const PairChannels here = rope_pair_channels(from, rotary_dim, i), there = rope_pair_channels(to, rotary_dim, i);
      rows[static_cast<std::size_t>(begin + there.first)] = begin + here.first;
      rows[static_cast<std::size_t>(begin + there.second)] = begin + here.second;
    }
  }
  return rows;
}

std::vector<std::byte> permute_rows(std::span<const std::byte> bytes, std::span<const std::int64_t> rows) {
  std::vector<std::byte> out(bytes.size());
  const std::size_t row = rows.empty() ? 0 : bytes.size() / rows.size();
  for (std::size_t r = 0; r < rows.size() && row > 0; ++r) {
    std::memcpy(out.data() + r * row, bytes.data() + static_cast<std::size_t>(rows[r]) * row, row);
  }
  return out;
}

std::vector<PermutedTensor> permute_file(const std::string& source, const std::string& target, RopeLayout from,
                                         RopeLayout to, const PermuteSizes& sizes) {
  if (std::error_code error; std::filesystem::equivalent(source, target, error)) {
    fail(fmt::format("{} and {} are the same file", source, target));
  }
  std::vector<PermutedTensor> changed, again;
  const SafetensorsFile file(source);
  {
    std::deque<std::vector<std::byte>> permuted;
    write_safetensors(target, turned(file, from, to, sizes, permuted, changed), file.metadata());
  }
  const SafetensorsFile written(target);
  std::deque<std::vector<std::byte>> back;
  for (const SafetensorsBytes& tensor : turned(written, to, from, sizes, back, again)) {
    const SafetensorsTensor* original = file.find(tensor.name);
    if (!original || original->shape != tensor.shape || original->dtype_word != tensor.dtype_word ||
        !std::equal(tensor.bytes.begin(), tensor.bytes.end(), original->bytes.begin(), original->bytes.end())) {
      fail(fmt::format("tensor {} does not come back as it was", printable(tensor.name)));
    }
  }
  return changed;
}

}  // namespace poslab
