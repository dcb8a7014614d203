// How byte-level BPE tokenizers cut a text into words before they merge: the regular expressions of the models' own
// tokenizer.json, by the names GGUF gives them (tokenizer.ggml.pre), as hand-written scanners.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poslab {

enum class PreTokenizer {
  gpt2,       // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  digits,     // each \p{N} by itself, gpt2 on what is between
  llama_bpe,  // (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2       // llama_bpe's with \p{N} one by one
};

// Absent: a name that is not known here.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view ggml_name);
// "gpt-2, olmo, ..."
std::string known_pre_tokenizers();

// Adds the words of `text` (valid UTF-8), which together are the text, to `words`.
void pre_tokenize(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& words);

}  // namespace poslab
