// What poslab's transformer needs of a family that it runs: how its config.json and GGUF metadata become a
// TransformerConfig, and what its files call the parameters. The rest of a family stands in model_configs/family.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "poslab/formats/gguf.h"
#include "poslab/model_configs/family.h"
#include "poslab/models/config_keys.h"
#include "poslab/models/stored_tensors.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

// A GGUF file whose positions are read already; errors are "[checkpoint] PATH: ...".
class GgufModel {
 public:
  GgufModel(const GgufFile& file, const ModelConfig& config) : file_(file), config_(config) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", file_.path(), what));
  }
  const GgufFile& file() const { return file_; }
  const ModelConfig& config() const { return config_; }
  std::string key(std::string_view end) const { return fmt::format("{}.{}", config_.model_type, end); }
  bool has(std::string_view tensor) const { return file_.find_tensor(tensor) != nullptr; }
  template <class V>
  V required(const std::optional<V>& value, std::string_view end) const {
    if (!value) fail(fmt::format("has no {}", key(end)));
    return *value;
  }

 private:
  const GgufFile& file_;
  const ModelConfig& config_;
};

// What the code of an architecture fixes. GELU is the one that the weights were trained with: llama.cpp runs some with
// the tanh form, which is at most 5e-4 off the exact one.
struct GgufBlocks {
  NormKind norm = NormKind::rms_norm;
  MlpKind mlp = MlpKind::swiglu;
  // What keys of this architecture alone say; may be null.
  void (*read)(const GgufModel& model, TransformerConfig& config) = nullptr;
};

struct RunnableFamily {
  // Throws std::invalid_argument "[checkpoint] PATH: ..." for a key that is missing or of the wrong type, and for
  // settings that poslab's transformer has not.
  TransformerConfig (*read)(const ConfigKeys& keys);
  TensorNaming names = {};
  std::optional<GgufBlocks> gguf = std::nullopt;  // where the family has an architecture of its own
};

struct FamilyModel {
  TransformerConfig config;
  const TensorNaming* naming = nullptr;
};

// By model_type; each class computes what transformers' modeling_*.py does. Throws as RunnableFamily::read, and
// std::invalid_argument "[checkpoint] PATH: ..." for a model_type that does not run (with those that do).
FamilyModel read_family(const ConfigKeys& keys);

}  // namespace poslab
