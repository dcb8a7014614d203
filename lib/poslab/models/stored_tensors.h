// Which tensors the file of a model has, by the family whose names it uses, and which parameters each of them fills.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/core/printable.h"
#include "poslab/formats/npy.h"
#include "poslab/models/parameters.h"

namespace poslab {

// {poslab's module, a file's}.
using TensorModule = std::pair<std::string_view, std::string_view>;

// How a family's files call and store poslab's parameters.
struct TensorNaming {
  std::string_view prefix = "model.";         // what a file of the model without its head leaves out
  std::string_view layers = "model.layers.";  // followed by the layer's number
  // Queries, keys and values of one name stand in one tensor. Empty: poslab's names, which are Llama's.
  std::span<const TensorModule> modules = {};
  std::span<const TensorModule> own_modules = {};  // looked at first
  bool transposed = false;                         // the layers' linear maps are [in, out]
  bool fused_by_head = false;                      // rows of the one tensor of q, k, v run through q, k, v of each head
  bool gains_less_one = false;                     // norms multiply by 1 + gain
  bool norm_biases = true;                         // absent: LayerNorm adds nothing
};

// GGUF's names of a model of this config; fused: q, k and v are one tensor.
TensorNaming gguf_names(const TransformerConfig& config, bool fused, bool norm_biases);

// A tensor of a file and the `size` parameters from `offset` on that it fills.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // in the file
  std::int64_t offset = 0, size = 0;
  bool transposed = false;
  std::int64_t fused_heads = 0;  // 0: rows stand as poslab's
  bool less_one = false;
};
std::vector<StoredTensor> stored_tensors(const TransformerConfig& config, const TensorNaming& naming);

// Turns a tensor's values, in the file's order, into parameters, in place; `to_file` turns them back (transposed only).
template <class T>
void arrange(const StoredTensor& tensor, std::span<T> values, bool to_file = false);

// Throws std::invalid_argument "[checkpoint] PATH: ..." for values of a tensor that are no numbers: whatever such a
// model were to say would mean nothing.
template <class T>
void check_finite(const std::string& path, const std::string& tensor, std::span<const T> values);

// Throws std::invalid_argument "[checkpoint] PATH: ..." unless the file has every tensor that is wanted, of its shape,
// and none beside them but those that `ignored(name)` knows. find(name): a pointer to what has a shape, or null.
template <class File, class Find, class Ignored>
void check_tensors(const File& file, const std::vector<StoredTensor>& wanted, const Find& find,
                   const Ignored& ignored) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", file.path(), what));
  };
  std::set<const void*> used;
  for (const StoredTensor& tensor : wanted) {
    const auto* found = find(tensor.name);
    if (!found) fail(fmt::format("tensor {} is missing", tensor.name));
    if (found->shape != tensor.shape) {
      fail(fmt::format("tensor {} has the shape {} but the config needs {}", tensor.name, shape_text(found->shape),
                       shape_text(tensor.shape)));
    }
    used.insert(found);
  }
  for (const auto& tensor : file.tensors()) {
    if (!used.contains(&tensor) && !ignored(tensor.name)) {
      fail(fmt::format("tensor {} is extra: the config has no place for it", printable(tensor.name)));
    }
  }
}

}  // namespace poslab
