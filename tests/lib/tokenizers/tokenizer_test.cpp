#include "poslab/tokenizers/tokenizer.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "golden.h"
#include "scratch.h"

using namespace poslab;

namespace {

std::string error_of(const GgufBytes& bytes) {
  const Scratch scratch;
  const std::string path = scratch.file(bytes.bytes(), "a.gguf");
  try {
    const Tokenizer tokenizer{GgufFile(path)};
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what(), start = "[tokenizer] " + path + ": ";
    return text.rfind(start, 0) == 0 ? text.substr(start.size()) : text;
  }
  return "no error";
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A vocabulary of SentencePiece's kind: <unk>, ▁, a, b, ab.
GgufBytes small() {
  return GgufBytes()
      .string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"<unk>", "\xe2\x96\x81", "a", "b", "ab"})
      .numbers<float>("tokenizer.ggml.scores", 6, {0, -1, -2, -3, -0.5F});
}

}  // namespace

TEST_CASE("tokenizer: the tokens of PyPI's sentencepiece and tokenizers, and their text again") {
  const auto all = golden("tokenizers/tokenizers.json");
  int vocabularies = 0;
  for (const auto& [name, cases] : all.items()) {
    if (name == "_meta") continue;
    CAPTURE(name);
    const Tokenizer tokenizer = name.starts_with("model_")
                                    ? Tokenizer::from_sentencepiece(golden_path("tokenizers/" + name + ".model"))
                                    : Tokenizer{GgufFile(golden_path("tokenizers/" + name + ".gguf"))};
    for (const auto& expected : cases) {
      const auto text = expected["text"].get<std::string>();
      CAPTURE(text);
      const auto tokens = expected["tokens"].get<std::vector<std::int64_t>>();
      CHECK(tokenizer.encode(text) == tokens);
      CHECK(tokenizer.decode(tokens) == expected["decoded"].get<std::string>());
    }
    ++vocabularies;
  }
  CHECK(vocabularies == 8);
}

TEST_CASE("tokenizer: control tokens are text unless asked for") {
  const Tokenizer tokenizer{GgufFile(golden_path("tokenizers/spm_prefix.gguf"))};
  CHECK(tokenizer.bos() == 1);
  const auto tokens = tokenizer.encode("<s>the", true);
  CHECK(tokens.front() == 1);
  CHECK(tokenizer.decode(tokens) == "the");
  CHECK(tokenizer.encode("<s>the").front() != 1);
}

TEST_CASE("tokenizer: a long run without spaces takes no longer than its length") {
  const Tokenizer tokenizer{GgufFile(golden_path("tokenizers/bpe_gpt-2.gguf"))};
  const std::string text(1 << 18, 'e');
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("tokenizer: unknown characters become the unknown token without byte tokens") {
  const Scratch scratch;
  const Tokenizer tokenizer{GgufFile(scratch.file(small().bytes(), "a.gguf"))};
  CHECK(tokenizer.encode("abz") == std::vector<std::int64_t>{1, 4, 0});
  CHECK(tokenizer.size() == 5);
  CHECK_THROWS_WITH_AS(tokenizer.encode("ab\xff"), "[tokenizer] the text is no valid UTF-8 at byte 2.",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tokenizer.encode("\xed\xa0\x80"), "[tokenizer] the text is no valid UTF-8 at byte 0.",
                       std::invalid_argument);
  const std::vector<std::int64_t> past = {5};
  CHECK_THROWS_WITH_AS(tokenizer.decode(past), "[tokenizer] token 5 is not 0 .. 4.", std::invalid_argument);
}

TEST_CASE("tokenizer: a token may hold a space inside") {
  const Scratch scratch;
  const GgufBytes bytes = GgufBytes()
                              .string("tokenizer.ggml.model", "llama")
                              .strings("tokenizer.ggml.tokens", {"<unk>", "\xe2\x96\x81", "a", "a\xe2\x96\x81"})
                              .numbers<float>("tokenizer.ggml.scores", 6, {0, -1, -2, -3})
                              .boolean("tokenizer.ggml.add_space_prefix", false);
  const Tokenizer tokenizer{GgufFile(scratch.file(bytes.bytes(), "a.gguf"))};
  CHECK(tokenizer.encode("a a") == std::vector<std::int64_t>{3, 2});
}

TEST_CASE("tokenizer: bytes without a token of their own become the unknown one") {
  const Scratch scratch;
  std::vector<std::string> tokens = {"<unk>"};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  GgufBytes bytes;
  bytes.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", tokens);
  CHECK(error_of(bytes) == "has no token for the byte 0x00.");
  bytes.u32("tokenizer.ggml.unknown_token_id", 0);
  const Tokenizer tokenizer{GgufFile(scratch.file(bytes.bytes(), "a.gguf"))};
  CHECK(tokenizer.encode("ab\x04z") == std::vector<std::int64_t>{1, 2, 0, 26});
}

TEST_CASE("tokenizer: vocabularies that are wrong") {
  CHECK(error_of(GgufBytes()) == "holds no tokenizer (tokenizer.ggml.model).");
  CHECK(error_of(GgufBytes().string("tokenizer.ggml.model", "bert")) ==
        "has a tokenizer of kind bert; llama and gpt2 are read, scripts/encode_text.py serves others.");
  CHECK(error_of(GgufBytes().string("tokenizer.ggml.model", "llama")) == "tokenizer.ggml.tokens is empty.");
  CHECK(error_of(small().numbers<std::int32_t>("tokenizer.ggml.token_type", 5, {1})) ==
        "has 1 token types for 5 tokens.");
  CHECK(error_of(small().numbers<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 1, 9})) ==
        "token 4 has the unknown type 9.");
  CHECK(error_of(small().numbers<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 1, 6})) ==
        "byte token 4 is written ab, not <0x00>.");
  for (const std::string odd : {"<0x-7>", "<0x+7>", "<0x 7>", "<0x7>>", "<0x777", "<0y77>"}) {
    CHECK(error_of(GgufBytes()
                       .string("tokenizer.ggml.model", "llama")
                       .strings("tokenizer.ggml.tokens", {odd})
                       .numbers<float>("tokenizer.ggml.scores", 6, {0})
                       .numbers<std::int32_t>("tokenizer.ggml.token_type", 5, {6})) ==
          "byte token 0 is written " + odd + ", not <0x00>.");
  }
  CHECK(error_of(small().u32("tokenizer.ggml.bos_token_id", 5)) ==
        "tokenizer.ggml.bos_token_id is 5, past the 5 tokens.");
  CHECK(error_of(GgufBytes().string("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"a"})) ==
        "has 0 scores for 1 tokens.");
  const GgufBytes bpe = GgufBytes().string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"});
  CHECK(error_of(bpe) == "has no token for the byte 0x00.");
  CHECK(error_of(GgufBytes(bpe).string("tokenizer.ggml.pre", "odd")).find("cuts words in the way odd; gpt-2, phi-2") ==
        0);
}

TEST_CASE("tokenizer: Qwen's text is composed first, others' is not") {
  const Tokenizer qwen{GgufFile(golden_path("tokenizers/bpe_qwen2.gguf"))};
  CHECK(qwen.encode("e\xcc\x81") == qwen.encode("\xc3\xa9"));
  const Tokenizer llama{GgufFile(golden_path("tokenizers/bpe_llama-bpe.gguf"))};
  CHECK(llama.encode("e\xcc\x81") != llama.encode("\xc3\xa9"));
}

TEST_CASE("tokenizer: the sentencepiece model beside the weights, else the only GGUF file's vocabulary") {
  const Scratch scratch;
  const std::string folder = scratch.path("");
  CHECK(!find_tokenizer(folder));
  std::filesystem::copy(golden_path("tokenizers/spm_plain.gguf"), scratch.path("a.gguf"));
  CHECK(find_tokenizer(folder)->size() == 420);
  CHECK(find_tokenizer(scratch.path("a.gguf"))->size() == 420);
  std::filesystem::copy(golden_path("tokenizers/model_bpe.model"), scratch.path("tokenizer.model"));
  const auto found = find_tokenizer(folder);
  REQUIRE(found);
  CHECK(found->size() == 400);
  CHECK(found->bos() == 1);
  CHECK(found->decode(found->encode("the position")) == "the position");
  CHECK_THROWS_WITH_AS(found->decode(std::vector<std::int64_t>{400}), "[tokenizer] token 400 is not 0 .. 399.",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(found->encode("a\xff"), "[tokenizer] the text is no valid UTF-8 at byte 1.",
                       std::invalid_argument);
}

TEST_CASE("tokenizer: what is no sentencepiece model is named") {
  const Scratch scratch;
  const auto error = [&](const std::string& bytes) -> std::string {
    const std::string path = scratch.file(bytes, "x.model");
    try {
      Tokenizer::from_sentencepiece(path);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what()).substr(std::string("[tokenizer] " + path + ": ").size());
    }
    return "no error";
  };
  CHECK(error("GGUF") == "is no sentencepiece model but a GGUF file.");
  CHECK(error("not a model").find("libsentencepiece says '") == 0);
  CHECK(error(std::string("\0", 1)) != "no error");
  const std::string whole = bytes_of(golden_path("tokenizers/model_unigram.model"));
  CHECK(error(whole.substr(0, whole.size() / 2)) != "no error");
}
