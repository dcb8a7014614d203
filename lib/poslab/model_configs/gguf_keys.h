// Typed access to the metadata of a GGUF file by the end of a key ("block_count" of "llama.block_count"); errors name
// the file and the key. Internal to gguf_config.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/formats/gguf.h"
#include "poslab/model_configs/family.h"

namespace poslab {

class GgufKeys {
 public:
  // Throws std::invalid_argument "[gguf_config] PATH: ..." for an architecture that no family has.
  explicit GgufKeys(const GgufFile& file);

  [[noreturn]] void fail(const std::string& what) const;
  const GgufFile& file() const { return file_; }
  const Family& family() const { return *family_; }
  const GgufArchitecture& architecture() const { return family_->gguf; }
  // "general.architecture llama"
  std::string architecture_source() const { return fmt::format("general.architecture {}", architecture().name); }

  std::string key(std::string_view end) const { return fmt::format("{}.{}", architecture().name, end); }
  bool has(std::string_view end) const { return file_.find_value(key(end)) != nullptr; }
  // Above 0; a list of one value for each layer must hold the same everywhere.
  std::optional<std::int64_t> size(std::string_view end) const;
  std::int64_t required(std::optional<std::int64_t> value, std::string_view end) const;
  std::optional<double> positive(std::string_view end) const;

 private:
  std::optional<std::int64_t> uniform(std::string_view end) const;

  const GgufFile& file_;
  const Family* family_ = nullptr;
};

// The layers of an architecture that see a window only.
class GgufWindow {
 public:
  explicit GgufWindow(const GgufKeys& keys);

  // Of the layers that slide; absent: none do.
  const std::optional<std::int64_t>& tokens() const { return tokens_; }
  // attention.sliding_window as the file has it.
  std::optional<std::int64_t> given() const;
  std::string pattern_key() const { return keys_.key("attention.sliding_window_pattern"); }
  // Whether each layer slides, where the pattern is a list of them.
  std::vector<bool> listed_layers() const;
  // The last of every so many layers sees everything; 0: none does.
  std::int64_t period() const;
  // Llama 4's files say with a window of 0 that all layers see everything and have RoPE.
  bool switched_to_full() const { return keys_.architecture().sliding.chunked && given() == 0; }

 private:
  const GgufKeys& keys_;
  std::optional<std::int64_t> tokens_;
};

}  // namespace poslab
