// An experiment is one subcommand: Params -> Report. It never prints and touches files only through paths in Params.
// Each .cpp in this folder registers itself; see ARCHITECTURE.md, "add an experiment".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/prepared.h"
#include "poslab/core/fields.h"
#include "poslab/report/report.h"

namespace poslab {

// What a run may use beside its parameters.
struct RunContext {
  int threads = 1;
  std::function<void(double)> progress = [](double) {};  // 0 .. 1, may be called from one thread at a time
  // A few words to show beside the progress: "loss 1.234, 9,000 tokens/s".
  std::function<void(const std::string&)> status = [](const std::string&) {};
  // Of this run, or of all the points of a sweep.
  std::shared_ptr<Prepared> prepared = std::make_shared<Prepared>();
};

// One row, or a generator of rows, of type Row; typed so that a row cannot miss a field.
template <class Summary, class Row>
struct TypedReport {
  Summary summary{};
  std::vector<Row> rows;
  // Instead of `rows`, for long tables: row_count rows, made one at a time (any order, from several threads).
  std::int64_t row_count = 0;
  std::function<Row(std::int64_t)> make_row;
  std::vector<std::string> columns;  // the row fields this run fills; empty = all
  std::string conclusion;            // a few lines for the reader of the text format
  std::vector<Picture> pictures;
  TensorSource tensor;             // for --save-npy; an empty shape = none
  std::vector<std::string> notes;  // lines for stderr
};

struct Experiment {
  std::string name;
  std::string question;  // one sentence, shown by --help, list and the text output
  std::string example;   // a whole command line
  std::vector<FieldSpec> params, summary, row;
  std::function<Report(const Record& params, const RunContext&)> run;

  std::string positional;             // the parameter that a bare word sets, or empty
  std::vector<std::string> verdicts;  // what --expect may ask; the summary then has a field `verdict`
  // Why a sweep over `all` words leaves out this point; empty = it stays.
  std::function<std::string(const Record& params)> excluded;
  bool stops_at_signal = false;  // in good order: it polls interrupt_requested()
};

// In alphabetical order.
std::vector<std::string> experiment_names();
// nullptr when there is none of that name; the description is made at the first call and lives as long as the process.
const Experiment* find_experiment(std::string_view name);

// Erases the types of an experiment. Params must have been read from flags or configs (see cli).
template <class Params, class Summary, class Row>
Experiment describe(std::string name, std::string question, std::string example,
                    TypedReport<Summary, Row> (*run)(const Params&, const RunContext&)) {
  Experiment e;
  e.name = std::move(name);
  e.question = std::move(question);
  e.example = std::move(example);
  e.params = field_specs<Params>();
  e.summary = field_specs<Summary>();
  e.row = field_specs<Row>();
  e.run = [run](const Record& record, const RunContext& context) {
    TypedReport<Summary, Row> typed = run(from_record<Params>(record), context);
    Report report;
    report.summary = to_record(typed.summary);
    if (typed.make_row) {
      report.rows.count = typed.row_count;
      report.rows.fill = [make = std::move(typed.make_row)](std::int64_t i, Record& out) {
        out.clear();
        append_record(make(i), out);
      };
    } else {
      report.rows.count = static_cast<std::int64_t>(typed.rows.size());
      report.rows.fill = [rows = std::move(typed.rows)](std::int64_t i, Record& out) {
        out.clear();
        append_record(rows[static_cast<std::size_t>(i)], out);
      };
    }
    report.rows.columns = std::move(typed.columns);
    report.conclusion = std::move(typed.conclusion);
    report.pictures = std::move(typed.pictures);
    report.tensor = std::move(typed.tensor);
    report.notes = std::move(typed.notes);
    return report;
  };
  return e;
}

// Registers at start-up, in an unnamed namespace: `const Registrar registrar("table", describe_table);`. The field
// lists are made at first use, so that start-up does not grow with the number of subcommands.
struct Registrar {
  using Maker = Experiment (*)();
  Registrar(std::string_view name, Maker make);
};

}  // namespace poslab
