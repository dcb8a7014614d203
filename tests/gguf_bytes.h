// GGUF files for tests, right or wrong in any field.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

class GgufBytes {
 public:
  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string text(const std::string& s) { return raw<std::uint64_t>(s.size()) + s; }

  GgufBytes& entry(const std::string& key, std::uint32_t type, const std::string& value) {
    values_ += text(key) + raw(type) + value;
    ++n_values_;
    return *this;
  }
  GgufBytes& u32(const std::string& key, std::uint32_t value) {
    if (key == "general.alignment" && value > 0) alignment_ = value;
    return entry(key, 4, raw(value));
  }
  GgufBytes& f32(const std::string& key, float value) { return entry(key, 6, raw(value)); }
  GgufBytes& boolean(const std::string& key, bool value) { return entry(key, 7, raw<std::uint8_t>(value)); }
  GgufBytes& string(const std::string& key, const std::string& value) { return entry(key, 8, text(value)); }
  GgufBytes& strings(const std::string& key, const std::vector<std::string>& value) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(value.size());
    for (const auto& s : value) bytes += text(s);
    return entry(key, 9, bytes);
  }
  template <class T>
  GgufBytes& numbers(const std::string& key, std::uint32_t type, const std::vector<T>& value) {
    std::string bytes = raw(type) + raw<std::uint64_t>(value.size());
    for (T v : value) bytes += raw(v);
    return entry(key, 9, bytes);
  }
  // lengths as in the file, the fastest first.
  GgufBytes& tensor(const std::string& name, const std::vector<std::uint64_t>& lengths, std::uint32_t type,
                    std::uint64_t offset) {
    tensors_ += text(name) + raw<std::uint32_t>(static_cast<std::uint32_t>(lengths.size()));
    for (auto n : lengths) tensors_ += raw(n);
    tensors_ += raw(type) + raw(offset);
    ++n_tensors_;
    return *this;
  }
  GgufBytes& data(const std::string& bytes) {
    data_ += bytes;
    return *this;
  }
  // An f32 tensor after the ones before it.
  GgufBytes& floats(const std::string& name, const std::vector<std::uint64_t>& lengths,
                    const std::vector<float>& values) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    tensor(name, lengths, 0, data_.size());
    for (float v : values) data_ += raw(v);
    return *this;
  }

  std::string bytes(std::uint32_t version = 3) const {
    std::string out = "GGUF" + raw(version) + raw(n_tensors_) + raw(n_values_) + values_ + tensors_;
    if (!data_.empty()) out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_);
    return out + data_;
  }

 private:
  std::size_t alignment_ = 32;  // of the data, unless general.alignment says otherwise
  std::uint64_t n_values_ = 0, n_tensors_ = 0;
  std::string values_, tensors_, data_;
};
