// libFuzzer: whatever the bytes, the readers of tensors, positions and vocabulary answer or throw
// std::invalid_argument.
#include "fuzz/fuzz_file.h"
#include "poslab/model_configs/config_differences.h"
#include "poslab/model_configs/gguf_config.h"
#include "poslab/model_configs/weight_facts.h"
#include "poslab/tokenizers/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz_file(data, size, [](const std::string& path) {
    const poslab::GgufFile file(path);
    for (const auto& tensor : file.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(tensor.size));
      file.read(tensor, values);
    }
    poslab::weight_facts(file, nullptr);
    try {
      const poslab::ModelConfig config = poslab::gguf_config(file);
      poslab::weight_facts(file, &config);
      poslab::config_differences(config, config);
    } catch (const std::invalid_argument&) {
      // Most files have no model in them, and a vocabulary may be there all the same.
    }
    const poslab::Tokenizer tokenizer(file);
    tokenizer.decode(tokenizer.encode("the  position, 12's\n", true));
  });
}
