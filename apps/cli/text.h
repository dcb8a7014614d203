// The text format: question, answer in a few lines, small picture, table.
#pragma once

#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/report/document.h"

namespace poslab::cli {

struct TextStyle {
  int width = 80;
  bool color = false;
};

std::string text_document(const Document& document, const Experiment& experiment, const TextStyle& style);

// One table of a sweep's summaries: the swept parameters, then the summary's scalars.
class SummaryTable {
 public:
  SummaryTable(const Experiment& experiment, std::vector<std::size_t> swept, TextStyle style);
  void add(const Document& document);
  std::string text() const;

 private:
  const Experiment& experiment_;
  std::vector<std::size_t> swept_;
  TextStyle style_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace poslab::cli
