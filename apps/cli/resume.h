// The points that an interrupted sweep's ndjson file already holds.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/output.h"
#include "experiments/experiment.h"

namespace poslab::cli {

class ResumedLines {
 public:
  struct Line {
    std::string text;  // with its newline
    std::string verdict;
  };

  // Reads PATH.partial, else PATH; a last line without newline is dropped. Leaves what was read in PATH.partial, ready
  // for more lines. Throws UsageError for a line that is no document of this experiment.
  ResumedLines(const Experiment& experiment, OutputFile& file, const std::function<void(std::string)>& note);

  // The line of these parameters (typed, defaults filled), or nullptr.
  const Line* find(const Record& params) const;

  // Tells, in point order, which line a point has; new ones stand behind the resumed ones in the file.
  void emitted(const std::string& line, bool resumed);

  // Leaves exactly the emitted lines in the file, in point order.
  void put_in_order(OutputFile& file) const;

 private:
  std::unordered_map<std::string, Line> lines_;
  std::size_t read_ = 0, reused_ = 0;
  bool in_order_ = true;
  std::vector<std::string> order_;
  std::vector<std::string> first_lines_;
};

}  // namespace poslab::cli
