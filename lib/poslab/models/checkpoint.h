// A model in a folder: config.json and model.safetensors in Hugging Face's names, and, where training may go on,
// training.safetensors with the optimiser's moments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/folder_lock.h"
#include "poslab/models/adamw.h"
#include "poslab/models/checkpoint_config.h"
#include "poslab/models/transformer.h"

namespace poslab {

template <class T>
struct Checkpoint {
  Transformer<T> model;
  CheckpointNotes notes;
  std::optional<std::int64_t> left_out = {};  // tensors of a multimodal model's other parts; absent: it has none
};

// Values stored as f32, f64, bf16 or f16 become T. Throws std::invalid_argument naming the file and the tensor for one
// that is missing, extra, of the wrong shape or type, or truncated; for config.json as read_config does.
template <class T>
Checkpoint<T> load_checkpoint(const std::string& folder);

// Where a training run stands beside its parameters.
template <class T>
struct TrainingState {
  std::int64_t steps = 0;  // taken
  std::vector<T> first_moment, second_moment;
  CheckpointNotes run;  // the run's own settings, which a continuation must share
};

// For a checkpoint of a model with this layout; throws as load_checkpoint does, also when the folder has no such state.
template <class T>
TrainingState<T> load_training_state(const std::string& folder, const ParameterLayout& layout);

// The one writer of a folder. Saving writes FOLDER.partial and swaps the two in one step, so that the folder always
// holds a whole checkpoint, whatever fails and whenever the process dies.
class CheckpointFolder {
 public:
  // Throws std::runtime_error "cannot write FOLDER: ..." when another process holds it, when it is a file, or when its
  // parent cannot be written; std::invalid_argument when it exists and holds anything but a checkpoint.
  explicit CheckpointFolder(const std::string& folder);

  // Throws std::runtime_error "cannot write ..."; the checkpoint before it then is still there.
  template <class T>
  void save(const Transformer<T>& model, const CheckpointNotes& notes, const TrainingState<T>* state) const;

 private:
  std::string folder_;
  std::optional<FolderLock> lock_;
};

}  // namespace poslab
