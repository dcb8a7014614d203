#include "poslab/models/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "poslab/core/element_type.h"
#include "poslab/core/file_write.h"
#include "poslab/core/threads.h"
#include "poslab/formats/safetensors.h"

namespace poslab {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_file = "config.json";
constexpr const char* model_file = "model.safetensors";
constexpr const char* training_file = "training.safetensors";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", path, what));
}

template <class T>
std::span<T> part(std::span<T> values, std::int64_t offset, std::int64_t size) {
  return values.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// What the names of a multimodal model's text part begin with: transformers moved the inner "model." to the front.
constexpr std::string_view text_names[] = {"language_model.", "model.language_model.", "lm_head."};

bool is_of_text(std::string_view name) {
  return std::any_of(std::begin(text_names), std::end(text_names),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

// Files of a model without its head leave the prefix out.
const SafetensorsTensor* find(const SafetensorsFile& file, const ReadConfig& read, const std::string& name) {
  const std::string_view prefix = read.naming->prefix;
  const bool prefixed = !prefix.empty() && name.starts_with(prefix);
  const std::string inner = prefixed ? name.substr(prefix.size()) : name;
  if (!read.text_part) {
    const SafetensorsTensor* found = file.find(name);
    return found || !prefixed ? found : file.find(inner);
  }
  for (const std::string& known : {"language_model." + name, "model.language_model." + inner, name}) {
    const SafetensorsTensor* found = is_of_text(known) ? file.find(known) : nullptr;
    if (found) return found;
  }
  return nullptr;
}

// Beside their parameters some models of Hugging Face save buffers, and the head that is the table of token vectors.
bool is_ignored(const std::string& name, const TransformerConfig& config) {
  for (const char* end : {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                          ".rotary_emb.inv_freq", "embed_positions.inv_freq"}) {
    if (name.ends_with(end)) return true;
  }
  return config.tied_head &&
         (name == "lm_head.weight" || name == "embed_out.weight" || name == "language_model.lm_head.weight");
}

template <class T, class Find>
void read_tensors(const SafetensorsFile& file, const std::vector<StoredTensor>& wanted, const Find& find,
                  std::span<T> values) {
  parallel_for(std::ssize(wanted), available_cores(), [&](std::int64_t i) {
    const StoredTensor& tensor = wanted[static_cast<std::size_t>(i)];
    const std::span<T> to = part(values, tensor.offset, tensor.size);
    file.read(*find(tensor.name), to);
    check_finite<T>(file.path(), tensor.name, to);
    arrange(tensor, to);
  });
}

}  // namespace

template <class T>
Checkpoint<T> load_checkpoint(const std::string& folder) {
  const fs::path at(folder);
  ReadConfig read = read_config((at / config_file).string());
  const SafetensorsFile file(folder);
  // Before a model is made: a config may ask for any size.
  const std::vector<StoredTensor> tensors = stored_tensors(read.config, *read.naming);
  const auto find_in_file = [&](const std::string& name) { return find(file, read, name); };
  const auto is_other_part = [&](const std::string& name) { return read.text_part && !is_of_text(name); };
  check_tensors(file, tensors, find_in_file,
                [&](const std::string& name) { return is_ignored(name, read.config) || is_other_part(name); });
  if (read.config.embedding_scale != 1) {
    // The scale is a number of the table's own type.
    const DType type = find_in_file(tensors.front().name)->dtype.value_or(DType::f32);
    read.config.embedding_scale = round_to(type, read.config.embedding_scale);
  }
  Checkpoint<T> checkpoint{Transformer<T>(read.config), std::move(read.notes)};
  read_tensors(file, tensors, find_in_file, checkpoint.model.values());
  if (read.text_part) {
    checkpoint.left_out = std::count_if(file.tensors().begin(), file.tensors().end(),
                                        [&](const SafetensorsTensor& t) { return is_other_part(t.name); });
  }
  return checkpoint;
}

template <class T>
TrainingState<T> load_training_state(const std::string& folder, const ParameterLayout& layout) {
  const std::string path = (fs::path(folder) / training_file).string();
  if (!fs::exists(path)) fail(path, "is missing: this checkpoint was saved without the state of its training");
  const SafetensorsFile file(path);
  TrainingState<T> state;
  state.run = file.metadata();
  const std::string steps = state.run["steps"];
  const auto [end, error] = std::from_chars(steps.data(), steps.data() + steps.size(), state.steps);
  if (error != std::errc() || end != steps.data() + steps.size() || state.steps < 0) {
    fail(path, fmt::format("__metadata__.steps must be a count but is '{}'", steps));
  }
  state.run.erase("steps");
  const std::int64_t size = layout.size();
  const std::vector<StoredTensor> moments = {{"first_moment", {size}, 0, size}, {"second_moment", {size}, size, size}};
  const auto find_in_file = [&](const std::string& name) { return file.find(name); };
  check_tensors(file, moments, find_in_file, [](const std::string&) { return false; });
  std::vector<T> both(static_cast<std::size_t>(2 * size));
  read_tensors(file, moments, find_in_file, std::span<T>(both));
  state.first_moment.assign(both.begin(), both.begin() + size);
  state.second_moment.assign(both.begin() + size, both.end());
  return state;
}

CheckpointFolder::CheckpointFolder(const std::string& folder) : folder_(folder) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
  if (fs::is_symlink(folder_)) folder_ = fs::weakly_canonical(folder_).string();  // what it points to is replaced
  if (fs::exists(folder_)) {
    if (!fs::is_directory(folder_)) throw std::runtime_error(fmt::format("cannot write {}: it is a file", folder_));
    if (!fs::is_empty(folder_) && !fs::exists(fs::path(folder_) / config_file)) {
      throw std::invalid_argument(
          fmt::format("[checkpoint] {} exists and is no checkpoint; choose a new folder.", folder_));
    }
  }
  lock_.emplace(folder_);
}

template <class T>
void CheckpointFolder::save(const Transformer<T>& model, const CheckpointNotes& notes,
                            const TrainingState<T>* state) const {
  const std::string json = config_json(model.config(), notes, sizeof(T) == 4 ? "float32" : "float64");
  const std::string partial = folder_ + ".partial";
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    const auto path = [&](const char* file) { return (fs::path(partial) / file).string(); };
    const std::array bytes = {std::as_bytes(std::span(json))};
    write_file(path(config_file), bytes);

    std::vector<std::vector<T>> arranged;  // owns the transposed weights
    std::vector<SafetensorsEntry<T>> entries;
    for (const StoredTensor& tensor : stored_tensors(model.config(), saved_names(model.config()))) {
      std::span<const T> values = part(model.values(), tensor.offset, tensor.size);
      if (tensor.transposed) {
        arranged.emplace_back(values.begin(), values.end());
        arrange<T>(tensor, arranged.back(), true);
        values = arranged.back();
      }
      entries.push_back({tensor.name, tensor.shape, values});
    }
    write_safetensors<T>(path(model_file), entries, {{"format", "pt"}});
    if (state) {
      CheckpointNotes metadata = state->run;
      metadata["steps"] = std::to_string(state->steps);
      const std::vector<std::int64_t> shape = {std::ssize(state->first_moment)};
      const std::array<SafetensorsEntry<T>, 2> moments = {
          {{"first_moment", shape, state->first_moment}, {"second_moment", shape, state->second_moment}}};
      write_safetensors<T>(path(training_file), moments, metadata);
    }
    replace_folder(partial, folder_);
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", folder_, error.code().message()));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

#define POSLAB_INSTANTIATE(T)                                                                \
  template Checkpoint<T> load_checkpoint(const std::string&);                                \
  template TrainingState<T> load_training_state(const std::string&, const ParameterLayout&); \
  template void CheckpointFolder::save(const Transformer<T>&, const CheckpointNotes&, const TrainingState<T>*) const;
POSLAB_INSTANTIATE(float)
POSLAB_INSTANTIATE(double)
#undef POSLAB_INSTANTIATE

}  // namespace poslab
