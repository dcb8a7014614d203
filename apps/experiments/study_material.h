// What the models of a study learn from and what they are asked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "poslab/models/corpus.h"
#include "poslab/models/evaluate.h"
#include "poslab/models/tasks.h"

namespace poslab {

class StudyMaterial {
 public:
  // A text by characters, of which nine tenths train in stretches of up to `longest` tokens and the last tenth is
  // asked; else the task.
  StudyMaterial(const std::optional<std::string>& text, Task task, std::int64_t longest);

  const BatchSource& source() const { return *source_; }
  const std::string& name() const { return name_; }
  // Says all of it: what is trained on and what is asked.
  std::string identity() const;

  // About `positions` tokens in whole windows of `length`; a task's are drawn from a seed that no run of training uses
  // for its batches. Throws std::invalid_argument "[study] ..." when the text has no such window.
  EvaluationText asked(std::int64_t length, std::int64_t positions) const;

 private:
  std::string name_;
  std::unique_ptr<BatchSource> source_;
  std::optional<EvaluationText> held_out_;  // of a text
};

}  // namespace poslab
