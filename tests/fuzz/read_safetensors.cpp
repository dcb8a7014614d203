// libFuzzer: whatever the bytes, the reader answers with tensors or std::invalid_argument.
#include "fuzz/fuzz_file.h"
#include "poslab/model_configs/weight_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz_file(data, size, [](const std::string& path) {
    const poslab::SafetensorsFile file(path);
    poslab::weight_facts(file, nullptr);
    for (const auto& tensor : file.tensors()) {
      if (!tensor.dtype) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.size));
      file.read<float>(tensor, values);
    }
  });
}
