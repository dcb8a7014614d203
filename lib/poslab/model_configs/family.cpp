#include "poslab/model_configs/family.h"

#include <algorithm>

namespace poslab {
namespace {

template <class Fits>
const Family* first(const Fits& fits) {
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Family* family) { return fits(*family); });
  return found == all.end() ? nullptr : *found;
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  return first([&](const Family& f) {
    return f.model_type == model_type || f.other_types[0] == model_type || f.other_types[1] == model_type;
  });
}

const Family* find_gguf_family(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  return first([&](const Family& f) { return f.gguf.name == architecture; });
}

std::string known_gguf_architectures() {
  std::string out;
  for (const Family* family : families()) {
    if (!family->gguf.name.empty()) out += (out.empty() ? "" : ", ") + std::string(family->gguf.name);
  }
  return out;
}

}  // namespace poslab
