#include "poslab/tokenizers/sentencepiece_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <cstddef>
#include <stdexcept>

#include "poslab/core/printable.h"
#include "poslab/formats/mapped_file.h"

namespace poslab {
namespace {

using Text = std::string_view;
using Ids = std::vector<int>;

// What the library's functions return, an error or nothing: destroyed by the library's own destructor.
struct Status {
  alignas(sentencepiece::util::Status) std::byte bytes[sizeof(sentencepiece::util::Status)];

  Status() = default;
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status();
};

// The member functions that are called, by the names that the C++ ABI gives them: `this` comes first.
struct Library {
  void (*construct)(void*);
  void (*destroy)(void*);
  Status (*load)(void*, Text);
  Status (*encode)(const void*, Text, Ids*);
  Status (*decode)(const void*, const Ids&, std::string*);
  int (*size)(const void*);
  int (*bos)(const void*);
  int (*status_code)(const Status*);
  std::string (*status_text)(const Status*);
  void (*status_destroy)(Status*);
};

const Library& library() {
  static const Library loaded = [] {
    constexpr const char* name = "libsentencepiece.so.0";
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      throw std::runtime_error(fmt::format(
          "[tokenizer] sentencepiece could not be loaded ({}); install Debian's libsentencepiece0.", dlerror()));
    }
    const auto resolve = [&]<class Function>(Function& function, const char* symbol) {
      void* found = dlsym(handle, symbol);
      if (!found) throw std::runtime_error(fmt::format("[tokenizer] {} has no function {}.", name, symbol));
      function = reinterpret_cast<Function>(found);
    };
    Library l{};
#define POSLAB_PROCESSOR "22SentencePieceProcessor"
#define POSLAB_STRING_VIEW "St17basic_string_viewIcSt11char_traitsIcEE"
    resolve(l.construct, "_ZN13sentencepiece" POSLAB_PROCESSOR "C1Ev");
    resolve(l.destroy, "_ZN13sentencepiece" POSLAB_PROCESSOR "D1Ev");
    resolve(l.load, "_ZN13sentencepiece" POSLAB_PROCESSOR "23LoadFromSerializedProtoE" POSLAB_STRING_VIEW);
    resolve(l.encode, "_ZNK13sentencepiece" POSLAB_PROCESSOR "6EncodeE" POSLAB_STRING_VIEW "PSt6vectorIiSaIiEE");
    resolve(l.decode, "_ZNK13sentencepiece" POSLAB_PROCESSOR
                      "6DecodeERKSt6vectorIiSaIiEEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
    resolve(l.size, "_ZNK13sentencepiece" POSLAB_PROCESSOR "12GetPieceSizeEv");
    resolve(l.bos, "_ZNK13sentencepiece" POSLAB_PROCESSOR "6bos_idEv");
    resolve(l.status_code, "_ZNK13sentencepiece4util6Status4codeEv");
    resolve(l.status_text, "_ZNK13sentencepiece4util6Status8ToStringB5cxx11Ev");
    resolve(l.status_destroy, "_ZN13sentencepiece4util6StatusD1Ev");
#undef POSLAB_PROCESSOR
#undef POSLAB_STRING_VIEW
    return l;
  }();
  return loaded;
}

Status::~Status() { library().status_destroy(this); }

void check(const Status& status, std::string_view path) {
  if (library().status_code(&status) == 0) return;
  throw std::invalid_argument(
      fmt::format("[tokenizer] {}: libsentencepiece says '{}'.", path, printable(library().status_text(&status))));
}

}  // namespace

struct SentencepieceModel::Processor {
  std::string path;
  alignas(sentencepiece::SentencePieceProcessor) std::byte bytes[sizeof(sentencepiece::SentencePieceProcessor)];

  explicit Processor(std::string file) : path(std::move(file)) { library().construct(bytes); }
  ~Processor() { library().destroy(bytes); }
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;
};

SentencepieceModel::SentencepieceModel(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{256} << 20;
  const MappedFile file(path, "tokenizer");
  const auto bytes = file.bytes();
  const auto fail = [&](std::string_view what) {
    throw std::invalid_argument(fmt::format("[tokenizer] {}: {}.", path, what));
  };
  if (bytes.size() > most_bytes) fail("is too large for a sentencepiece model");
  if (const auto format = recognised_format(bytes); !format.empty()) {
    fail(fmt::format("is no sentencepiece model but {}", format));
  }
  processor_ = std::make_unique<Processor>(path);
  check(library().load(processor_->bytes, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}), path);
  if (size() < 1) fail("is no sentencepiece model: it has no tokens");
}

SentencepieceModel::~SentencepieceModel() = default;
SentencepieceModel::SentencepieceModel(SentencepieceModel&&) noexcept = default;

std::int64_t SentencepieceModel::size() const { return library().size(processor_->bytes); }

std::optional<std::int64_t> SentencepieceModel::bos() const {
  const int id = library().bos(processor_->bytes);
  return id >= 0 ? std::optional<std::int64_t>(id) : std::nullopt;
}

std::vector<std::int64_t> SentencepieceModel::encode(std::string_view text) const {
  Ids ids;
  check(library().encode(processor_->bytes, text, &ids), processor_->path);
  return {ids.begin(), ids.end()};
}

std::string SentencepieceModel::decode(std::span<const std::int64_t> tokens) const {
  Ids ids;
  for (std::int64_t token : tokens) ids.push_back(static_cast<int>(token));
  std::string text;
  check(library().decode(processor_->bytes, ids, &text), processor_->path);
  return text;
}

}  // namespace poslab
