// One run of an experiment with given parameters: its document, and what is asked of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/invocation.h"
#include "cli/output.h"
#include "cli/params.h"
#include "experiments/experiment.h"
#include "poslab/report/document.h"

namespace poslab::cli {

Document run_point(const Experiment& experiment, Record params, const RunContext& context);

// Rows that --save-npy holds anyway may be left out of a JSON document; otherwise a huge one is refused.
void limit_json(Document& document, bool has_npy, const Note& note);

void save_tensor(const Document& document, OutputFile& file, const std::function<void(double)>& progress);

// The word of the summary's field `verdict`; empty where it has none.
std::string verdict_of(const Document& document);

// Whether --expect, if asked, has its verdict.
bool as_expected(const RunOptions& options, const std::string& verdict);

// The parameters that stand before a row's own columns in CSV: `swept`, then all others where --csv-params says so.
std::vector<std::size_t> csv_params(const Experiment& experiment, const Invocation& call,
                                    std::vector<std::size_t> swept);

// The file of --output, or stdout.
class Target {
 public:
  Target(const Invocation& call, int standard_output);
  Writer& writer() { return file_ ? file_->writer() : stdout_; }
  TextSink sink() {
    return [this](std::string_view text) { writer().write(text); };
  }
  OutputFile* file() { return file_ ? &*file_ : nullptr; }
  void commit();

 private:
  Writer stdout_;
  std::optional<OutputFile> file_;
};

}  // namespace poslab::cli
