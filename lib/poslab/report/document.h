// The result document of a run and its machine-readable forms (docs/contract.md, "Documents"). Text for people is
// cli's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/report/report.h"

namespace poslab {

// One experiment's result with its field lists. The specs must outlive the document.
struct Document {
  std::string_view experiment;
  std::span<const FieldSpec> param_fields, summary_fields, row_fields;
  Record params;
  Report report;
  std::vector<std::pair<std::string, Value>> context;  // what varies between identical runs
};

// Takes finished text; called with pieces of about 64 KiB.
using TextSink = std::function<void(std::string_view)>;

// Shortest text that reads back to the same double: 100000, 1e+16, -0.0; "null" where not finite.
void append_number(std::string& out, double value);
void append_json_string(std::string& out, std::string_view text);
void append_json(std::string& out, const Value& value);

// The values that are not absent, by name: words as they are, all others as JSON.
std::map<std::string, std::string> given_values(const std::vector<FieldSpec>& specs, const Record& values);

// The indices of the row fields that this document's rows fill: all, unless its rows name their columns.
std::vector<std::size_t> filled_columns(const Document& document);

// Numbers that the document's rows hold, list entries counted singly (from its first row).
std::int64_t numbers_in_rows(const Document& document);

enum class JsonStyle { pretty, one_line };
// The same text whatever the number of threads that make it.
void write_json(const Document& document, JsonStyle style, const TextSink& sink, int threads = 1);

// CSV: a header and a line per row. A document without rows gives one line of its summary's scalars.
// `leading_params` are indices into the parameters whose columns come first; one named like a row field is params.NAME.
class CsvWriter {
 public:
  CsvWriter(std::vector<std::size_t> leading_params, TextSink sink, int threads = 1);
  // The first document fixes the header; throws std::invalid_argument "[csv] ..." for one that does not fit.
  void write(const Document& document);

 private:
  std::vector<std::size_t> leading_;
  TextSink sink_;
  int threads_;
  std::string header_;
};

}  // namespace poslab
