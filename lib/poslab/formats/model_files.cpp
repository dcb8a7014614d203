#include "poslab/formats/model_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace poslab {
namespace {

namespace fs = std::filesystem;

// A symlink to nowhere counts, so that reading it names it.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

}  // namespace

bool names_weights(std::string_view path) {
  return path.ends_with(".gguf") || path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json");
}

ModelFiles model_files(const std::string& path) {
  ModelFiles files;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!names_weights(path)) {
      if (is_there(path)) files.config = path;
      return files;
    }
    if (path.ends_with(".gguf")) {
      files.gguf.push_back(path);
    } else {
      files.safetensors = path;
    }
    if (const fs::path beside = fs::path(path).parent_path() / "config.json"; is_there(beside)) files.config = beside;
    return files;
  }
  const fs::path folder(path);
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (!files.safetensors && is_there(folder / name)) files.safetensors = folder / name;
  }
  if (is_there(folder / "config.json")) files.config = folder / "config.json";
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.ends_with(".gguf")) files.gguf.push_back(entry->path());
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) files.pickle = true;
  }
  std::sort(files.gguf.begin(), files.gguf.end());
  return files;
}

}  // namespace poslab
