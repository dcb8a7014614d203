#include "poslab/model_configs/permute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "poslab/core/file_write.h"
#include "poslab/core/printable.h"
#include "poslab/formats/mapped_file.h"
#include "poslab/formats/safetensors.h"
#include "poslab/model_configs/weight_facts.h"

namespace poslab {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(fmt::format("[permute] {}.", what)); }

// Before anything of that size is made.
void check_rows(std::int64_t n_heads, std::int64_t head_dim) {
  constexpr std::int64_t most = 1 << 26;
  if (n_heads > most || head_dim > most || n_heads * head_dim > most) {
    fail(fmt::format("{} heads of {} channels are too many", n_heads, head_dim));
  }
}

void check_sizes(const PermuteSizes& sizes) {
  if (std::min({sizes.n_heads, sizes.n_kv_heads, sizes.head_dim}) < 1) {
    fail(fmt::format("n_heads {}, n_kv_heads {} and head_dim {} must be above 0", sizes.n_heads, sizes.n_kv_heads,
                     sizes.head_dim));
  }
  check_rows(sizes.n_heads, sizes.head_dim);
  check_rows(sizes.n_kv_heads, sizes.head_dim);
}

struct Owner {
  std::string_view name;
  RotatedTensor tensor;
};
constexpr Owner owners[] = {
    {"q_proj", RotatedTensor::query},           {"k_proj", RotatedTensor::key},
    {"q_norm", RotatedTensor::query_norm},      {"q_layernorm", RotatedTensor::query_norm},
    {"k_norm", RotatedTensor::key_norm},        {"k_layernorm", RotatedTensor::key_norm},
    {"qkv_proj", RotatedTensor::fused_stacked}, {"Wqkv", RotatedTensor::fused_stacked},
    {"c_attn", RotatedTensor::fused_stacked},   {"query_key_value", RotatedTensor::fused_grouped}};

// By the last part of a path of names.
std::optional<RotatedTensor> owned_by(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  const auto* found =
      std::find_if(std::begin(owners), std::end(owners), [&](const Owner& o) { return o.name == last; });
  return found == std::end(owners) ? std::nullopt : std::optional(found->tensor);
}

// Whether it is something else of a module whose rows turn: a packed weight, its scales, an adapter.
bool belongs_to_rotated(std::string_view name) {
  if (is_vision_or_audio(name)) return false;
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    if (owned_by(name.substr(0, dot))) return true;
  }
  return false;
}

// The order of a tensor's rows in the result; absent: they stay.
std::optional<std::vector<std::int64_t>> new_order(const SafetensorsTensor& tensor, RopeLayout from, RopeLayout to,
                                                   const PermuteSizes& sizes) {
  if (const auto rotated = rotated_tensor(tensor.name)) {
    return tensor_rows(tensor.name, *rotated, tensor.shape.empty() ? 1 : tensor.shape[0], from, to, sizes);
  }
  if (belongs_to_rotated(tensor.name)) {
    fail(fmt::format("tensor {} belongs to queries or keys but is no plain weight or bias, and is not permuted",
                     printable(tensor.name)));
  }
  return std::nullopt;
}

// The tensors of a file with q and k turned from one layout to the other; `permuted` owns the bytes that changed.
std::vector<SafetensorsBytes> turned(const SafetensorsFile& file, RopeLayout from, RopeLayout to,
                                     const PermuteSizes& sizes, std::deque<std::vector<std::byte>>& permuted,
                                     std::vector<PermutedTensor>& changed) {
  std::vector<SafetensorsBytes> out;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    std::span<const std::byte> bytes = tensor.bytes;
    if (const auto rows = new_order(tensor, from, to, sizes)) {
      bytes = permuted.emplace_back(permute_rows(bytes, *rows));
      std::int64_t moved = 0;
      for (std::size_t r = 0; r < rows->size(); ++r) moved += (*rows)[r] != static_cast<std::int64_t>(r);
      changed.push_back({tensor.name, std::ssize(*rows) / sizes.head_dim, moved});
    }
    out.push_back({tensor.name, tensor.dtype_word, tensor.shape, bytes});
  }
  return out;
}

// One file, not an index. Adds what changed, which may be nothing in a shard.
void permute_one(const std::string& source, const std::string& target, RopeLayout from, RopeLayout to,
                 const PermuteSizes& sizes, std::vector<PermutedTensor>& changed) {
  if (std::error_code error; fs::equivalent(source, target, error)) {
    fail(fmt::format("{} and {} are the same file", source, target));
  }
  const SafetensorsFile file(source);
  {
    std::deque<std::vector<std::byte>> permuted;
    write_safetensors(target, turned(file, from, to, sizes, permuted, changed), file.metadata());
  }
  const SafetensorsFile written(target);
  std::deque<std::vector<std::byte>> back;
  std::vector<PermutedTensor> again;
  for (const SafetensorsBytes& tensor : turned(written, to, from, sizes, back, again)) {
    const SafetensorsTensor* original = file.find(tensor.name);
    if (!original || original->shape != tensor.shape || original->dtype_word != tensor.dtype_word ||
        !std::equal(tensor.bytes.begin(), tensor.bytes.end(), original->bytes.begin(), original->bytes.end())) {
      fail(fmt::format("tensor {} does not come back as it was", printable(tensor.name)));
    }
  }
}

}  // namespace

std::optional<RotatedTensor> rotated_tensor(std::string_view name) {
  const std::size_t end = name.rfind('.');
  const std::string_view kind = end == name.npos ? std::string_view() : name.substr(end + 1);
  if (kind != "weight" && kind != "bias") return std::nullopt;
  if (is_vision_or_audio(name)) return std::nullopt;
  return owned_by(name.substr(0, end));
}

std::vector<std::int64_t> layout_rows(RopeLayout from, RopeLayout to, std::int64_t n_heads, std::int64_t head_dim,
                                      std::int64_t rotary_dim) {
  check_rows(n_heads, head_dim);
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

std::vector<std::int64_t> tensor_rows(std::string_view name, RotatedTensor tensor, std::int64_t rows, RopeLayout from,
                                      RopeLayout to, const PermuteSizes& sizes) {
  check_sizes(sizes);
  const std::int64_t q = sizes.n_heads, kv = sizes.n_kv_heads, width = sizes.head_dim;
  const auto [name_order, heads] = [&]() -> std::pair<FusedOrder, std::int64_t> {
    switch (tensor) {
      case RotatedTensor::query:
        return {FusedOrder::stacked, q};
      case RotatedTensor::key:
        return {FusedOrder::stacked, kv};
      case RotatedTensor::query_norm:  // over one head, or over all of them (OLMo 2)
        return {FusedOrder::stacked, rows == width ? 1 : q};
      case RotatedTensor::key_norm:
        return {FusedOrder::stacked, rows == width ? 1 : kv};
      case RotatedTensor::fused_stacked:
        return {FusedOrder::stacked, q + 2 * kv};
      case RotatedTensor::fused_grouped:
        break;
    }
    return {FusedOrder::grouped, q + 2 * kv};
  }();
  if (rows != heads * width) {
    fail(fmt::format("tensor {} has {} rows but {} heads of {} channels need {}", printable(name), rows, heads, width,
                     heads * width));
  }
  std::vector<std::int64_t> order = layout_rows(from, to, heads, width, sizes.rotary_dim);
  const auto stay = [&](std::int64_t head) {
    for (std::int64_t r = head * width; r < (head + 1) * width; ++r) order[static_cast<std::size_t>(r)] = r;
  };
  if (tensor != RotatedTensor::fused_stacked && tensor != RotatedTensor::fused_grouped) return order;
  if (kv < 1 || q % kv != 0) fail(fmt::format("{} key heads do not divide {} query heads", kv, q));
  const std::int64_t group = q / kv + 2;
  for (std::int64_t head = 0; head < kv; ++head) {
    stay(sizes.fused.value_or(name_order) == FusedOrder::stacked ? q + kv + head : head * group + group - 1);
  }
  return order;
}

std::vector<PermutedTensor> permute_file(const std::string& source, const std::string& target, RopeLayout from,
                                         RopeLayout to, const PermuteSizes& sizes) {
  check_sizes(sizes);
  layout_rows(from, to, 1, sizes.head_dim, sizes.rotary_dim);  // refuses a part of a head without meaning
  // Every tensor, before anything is written.
  const auto check_tensors = [&](const SafetensorsFile& file) {
    std::int64_t turning = 0;
    for (const SafetensorsTensor& tensor : file.tensors()) turning += new_order(tensor, from, to, sizes).has_value();
    if (turning == 0) fail(fmt::format("{} has no query or key tensors", file.path()));
  };
  std::vector<PermutedTensor> changed;
  if (!source.ends_with(".index.json")) {
    if (fs::is_directory(target)) fail(fmt::format("{} is a folder; one file is written to a file", target));
    check_tensors(SafetensorsFile(source));
    permute_one(source, target, from, to, sizes, changed);
    return changed;
  }
  const SafetensorsFile whole(source);  // checks the shards against the index
  check_tensors(whole);
  if (fs::exists(target) && !fs::is_directory(target)) {
    fail(fmt::format("{} is no folder, which shards are written to", target));
  }
  fs::create_directories(target);
  for (const std::string& shard : whole.files()) {
    permute_one(shard, (fs::path(target) / fs::path(shard).filename()).string(), from, to, sizes, changed);
  }
  const MappedFile index(source, "read_safetensors");
  const std::vector<std::span<const std::byte>> bytes = {index.bytes()};
  write_file((fs::path(target) / fs::path(source).filename()).string(), bytes);
  return changed;
}

}  // namespace poslab
