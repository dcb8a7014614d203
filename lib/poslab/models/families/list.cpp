// Every model family, those that run first.
#include <vector>

#include "poslab/model_configs/family.h"

namespace poslab {

extern const Family llama_family, mistral_family, qwen2_family, qwen3_family, gemma3_family, gpt2_family,
    gpt_neox_family, bloom_family, mpt_family, ernie4_5_family, poslab_family;

// Rows of described_*.cpp and of a family's own file.
std::span<const Family> described_qwen3();
std::span<const Family> described_rope();
std::span<const Family> described_other();

std::span<const Family* const> families() {
  static const std::vector<const Family*> all = [] {
    std::vector<const Family*> list = {&llama_family,  &mistral_family,  &qwen2_family,    &qwen3_family,
                                       &gemma3_family, &gpt2_family,     &gpt_neox_family, &bloom_family,
                                       &mpt_family,    &ernie4_5_family, &poslab_family};
    for (const auto& rows : {described_qwen3(), described_rope(), described_other()}) {
      for (const Family& row : rows) list.push_back(&row);
    }
    return list;
  }();
  return all;
}

}  // namespace poslab
