#include "poslab/model_configs/model_list.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "poslab/methods/alibi.h"
#include "poslab/model_configs/family.h"
#include "poslab/model_configs/presets.h"

using namespace poslab;

namespace {

const ListedModel& listed(const std::vector<ListedModel>& all, ListedKind kind, std::string_view word) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ListedModel& m) { return m.kind == kind && m.word == word; });
  REQUIRE_MESSAGE(found != all.end(), word);
  return *found;
}

}  // namespace

TEST_CASE("every preset and every family is listed once, by name, length, encoding and scaling") {
  const auto all = listed_models();
  REQUIRE(all.size() == preset_names().size() + families().size());
  std::set<std::string> seen;
  for (const ListedModel& m : all) {
    CHECK_MESSAGE(seen.insert(std::string(to_word(m.kind)) + m.word).second, m.word);
    CHECK_MESSAGE(!m.name.empty(), m.word);
    CHECK_MESSAGE(!m.who.empty(), m.word);
    if (m.encoding != ModelEncoding::rope) CHECK_MESSAGE(m.scaling.empty(), m.word);
    if (m.kind == ListedKind::preset && m.encoding == ModelEncoding::rope) CHECK_MESSAGE(!m.scaling.empty(), m.word);
  }
  const ListedModel& llama = listed(all, ListedKind::preset, "llama-3.1-8b");
  CHECK(llama.who == "Meta");
  CHECK(llama.trained_length == 8192);
  CHECK(llama.scaling == "llama3");
  CHECK(llama.runs);
  CHECK(listed(all, ListedKind::preset, "bloom-7b1").encoding == ModelEncoding(alibi_method));
  CHECK(!listed(all, ListedKind::preset, "t5-small").runs);

  const ListedModel& gemma = listed(all, ListedKind::family, "gemma4_text");
  CHECK(gemma.scaling == "proportional, default");
  CHECK(!gemma.runs);
  CHECK(listed(all, ListedKind::family, "gpt2").trained_length == 1024);
  CHECK(listed(all, ListedKind::family, "refact").encoding == ModelEncoding(alibi_method));
}

TEST_CASE("no model_type and no architecture belongs to two families") {
  std::set<std::string_view> types, architectures;
  for (const Family* family : families()) {
    for (std::string_view type : {family->model_type, family->other_types[0], family->other_types[1]}) {
      if (!type.empty()) CHECK_MESSAGE(types.insert(type).second, type);
    }
    if (!family->gguf.name.empty()) CHECK_MESSAGE(architectures.insert(family->gguf.name).second, family->gguf.name);
    CHECK(find_family(family->model_type) == (family->model_type.empty() ? nullptr : family));
    CHECK(find_gguf_family(family->gguf.name) == (family->gguf.name.empty() ? nullptr : family));
  }
  CHECK(types.size() >= 130);
  CHECK(architectures.size() > 45);
}
