#include "poslab/report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "poslab/core/threads.h"
#include "poslab/report/number_text.h"

namespace poslab {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

template <class T, class Append>
void append_joined(std::string& out, const std::vector<T>& items, std::string_view separator, Append append) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    append(item);
  }
}

void append_integer(std::string& out, std::int64_t value) { fmt::format_to(std::back_inserter(out), "{}", value); }

void append_object(std::string& out, std::span<const FieldSpec> specs, const Record& record,
                   std::span<const std::size_t> columns, std::string_view separator) {
  bool first = true;
  for (std::size_t column : columns) {
    if (!first) out += separator;
    first = false;
    append_json_string(out, specs[column].name);
    out += ": ";
    append_json(out, record[column]);
  }
}

std::size_t list_size(const Value& value) {
  return std::visit(
      Overload{[](const std::vector<std::int64_t>& v) { return v.size(); },
               [](const std::vector<double>& v) { return v.size(); },
               [](const std::vector<std::string>& v) { return v.size(); }, [](const auto&) { return std::size_t{0}; }},
      value);
}

std::int64_t numbers_in_row(const Document& document, const Record& row, std::span<const std::size_t> columns) {
  std::int64_t numbers = 0;
  for (std::size_t column : columns) {
    numbers += document.row_fields[column].list ? static_cast<std::int64_t>(list_size(row[column])) : 1;
  }
  return numbers;
}

// append(out, index, row) for every row, in blocks on several threads whose text is handed over in order.
template <class Append>
void write_rows(const RowSource& rows, std::int64_t numbers_per_row, int threads, const TextSink& sink,
                const Append& append) {
  constexpr std::int64_t numbers_per_block = 4096, blocks_per_thread = 8;
  const std::int64_t block_rows =
      std::max<std::int64_t>(1, numbers_per_block / std::max<std::int64_t>(1, numbers_per_row));
  const std::int64_t batch_rows = block_rows * blocks_per_thread * threads;
  std::vector<std::string> texts(static_cast<std::size_t>(blocks_per_thread * threads));
  for (std::int64_t first = 0; first < rows.count; first += batch_rows) {
    const std::int64_t batch_end = std::min(first + batch_rows, rows.count);
    const std::int64_t blocks = (batch_end - first + block_rows - 1) / block_rows;
    parallel_for(blocks, threads, [&](std::int64_t block) {
      std::string& text = texts[static_cast<std::size_t>(block)];
      text.clear();
      Record row;
      const std::int64_t begin = first + block * block_rows;
      for (std::int64_t i = begin; i < std::min(begin + block_rows, batch_end); ++i) {
        rows.fill(i, row);
        append(text, i, row);
      }
    });
    for (std::int64_t block = 0; block < blocks; ++block) sink(texts[static_cast<std::size_t>(block)]);
  }
}

std::vector<std::size_t> all_columns(std::span<const FieldSpec> specs) {
  std::vector<std::size_t> columns(specs.size());
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = i;
  return columns;
}

// Units of every field that has one, so that a plot can label its axes from the document alone.
std::string units_object(const Document& document) {
  std::string out;
  std::vector<std::string_view> seen;
  for (auto specs : {document.param_fields, document.summary_fields, document.row_fields}) {
    for (const FieldSpec& spec : specs) {
      if (spec.unit.empty() || std::find(seen.begin(), seen.end(), spec.name) != seen.end()) continue;
      seen.push_back(spec.name);
      if (!out.empty()) out += ", ";
      append_json_string(out, spec.name);
      out += ": ";
      append_json_string(out, spec.unit);
    }
  }
  return out;
}

// --- CSV cells ---

void append_cell_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_cell_number(std::string& out, double value) {
  if (std::isfinite(value)) append_number(out, value);
}

// A scalar cell; a list becomes one cell, comma-joined.
void append_cell(std::string& out, const Value& value) {
  std::visit(Overload{[](std::monostate) {}, [&](bool v) { out += v ? "true" : "false"; },
                      [&](std::int64_t v) { append_integer(out, v); }, [&](double v) { append_cell_number(out, v); },
                      [&](const std::string& v) { append_cell_text(out, v); },
                      [&](const auto& list) {
                        std::string joined;
                        append_joined(joined, list, ",", [&](const auto& item) {
                          using Item = std::decay_t<decltype(item)>;
                          if constexpr (std::is_same_v<Item, std::string>) {
                            joined += item;
                          } else if constexpr (std::is_same_v<Item, double>) {
                            append_cell_number(joined, item);
                          } else {
                            append_integer(joined, item);
                          }
                        });
                        append_cell_text(out, joined);
                      }},
             value);
}

// Straight into the text: long tables are made of these.
void append_number_cells(std::string& out, const std::vector<double>& list) {
  const std::size_t before = out.size();
  out.resize(before + list.size() * (longest_number + 1));
  char* to = out.data() + before;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) *to++ = ',';
    if (std::isfinite(list[i])) to = write_number(to, list[i]);
  }
  out.resize(static_cast<std::size_t>(to - out.data()));
}

// A list field's cells, one per entry.
void append_list_cells(std::string& out, const Value& value) {
  std::visit(Overload{[&](const std::vector<double>& list) { append_number_cells(out, list); },
                      [&](const std::vector<std::int64_t>& list) {
                        append_joined(out, list, ",", [&](std::int64_t item) { append_integer(out, item); });
                      },
                      [&](const std::vector<std::string>& list) {
                        append_joined(out, list, ",", [&](const std::string& item) { append_cell_text(out, item); });
                      },
                      [](const auto&) {}},
             value);
}

// The fields that a CSV table holds, and over how many columns each list of the first row is spread.
struct CsvColumns {
  std::span<const FieldSpec> specs;
  std::vector<std::size_t> fields, sizes;  // sizes: 0 for a field that is no list
};

// Of the rows; of a document without rows its summary's scalars.
CsvColumns csv_columns(const Document& document, const Record& first_row) {
  CsvColumns columns{document.row_fields, {}, {}};
  if (!document.row_fields.empty()) {
    columns.fields = filled_columns(document);
  } else {
    columns.specs = document.summary_fields;
    for (std::size_t i = 0; i < columns.specs.size(); ++i) {
      if (!columns.specs[i].list) columns.fields.push_back(i);
    }
  }
  for (std::size_t field : columns.fields) {
    columns.sizes.push_back(first_row.empty() ? 0 : list_size(first_row[field]));
  }
  return columns;
}

std::string csv_header(const Document& document, const CsvColumns& columns, std::span<const std::size_t> leading) {
  std::string header;
  const auto add = [&](const std::string& name) {
    if (!header.empty()) header += ',';
    header += name;
  };
  for (std::size_t index : leading) {
    const std::string& name = document.param_fields[index].name;
    // A parameter with a row field's name is told apart as in JSON: params.tokens, tokens.
    const bool shared = std::any_of(document.row_fields.begin(), document.row_fields.end(),
                                    [&](const FieldSpec& field) { return field.name == name; });
    add(shared ? "params." + name : name);
  }
  for (std::size_t c = 0; c < columns.fields.size(); ++c) {
    const FieldSpec& spec = columns.specs[columns.fields[c]];
    if (!spec.list) add(spec.name);
    for (std::size_t i = 0; spec.list && i < columns.sizes[c]; ++i) add(fmt::format("{}_{}", spec.name, i));
  }
  return header + '\n';
}

// `first`: no cell of this line was written before.
void append_csv_row(std::string& out, const CsvColumns& columns, std::int64_t index, const Record& row, bool first) {
  for (std::size_t c = 0; c < columns.fields.size(); ++c) {
    const FieldSpec& spec = columns.specs[columns.fields[c]];
    const Value& value = row[columns.fields[c]];
    const std::size_t size = spec.list ? list_size(value) : 0;
    if (size != (spec.list ? columns.sizes[c] : 0)) {
      throw std::invalid_argument(
          fmt::format("[csv] row {} has {} values in {} where the first row has {}; use --format ndjson.", index, size,
                      spec.name, columns.sizes[c]));
    }
    if (spec.list && size == 0) continue;
    if (!first) out += ',';
    first = false;
    if (spec.list) {
      append_list_cells(out, value);
    } else {
      append_cell(out, value);
    }
  }
  out += '\n';
}

}  // namespace

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
  } else {
    char text[longest_number];
    out.append(text, write_number(text, value));
  }
}

void append_json_string(std::string& out, std::string_view text) { out += nlohmann::json(text).dump(); }

void append_json(std::string& out, const Value& value) {
  std::visit(Overload{[&](std::monostate) { out += "null"; }, [&](bool v) { out += v ? "true" : "false"; },
                      [&](std::int64_t v) { append_integer(out, v); }, [&](double v) { append_number(out, v); },
                      [&](const std::string& v) { append_json_string(out, v); },
                      [&](const auto& list) {
                        out += '[';
                        append_joined(out, list, ", ", [&](const auto& item) {
                          using Item = std::decay_t<decltype(item)>;
                          if constexpr (std::is_same_v<Item, std::string>) {
                            append_json_string(out, item);
                          } else if constexpr (std::is_same_v<Item, double>) {
                            append_number(out, item);
                          } else {
                            append_integer(out, item);
                          }
                        });
                        out += ']';
                      }},
             value);
}

std::map<std::string, std::string> given_values(const std::vector<FieldSpec>& specs, const Record& values) {
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (std::holds_alternative<std::monostate>(values[i])) continue;
    std::string& text = given[specs[i].name];
    if (const auto* word = std::get_if<std::string>(&values[i])) {
      text = *word;
    } else {
      append_json(text, values[i]);
    }
  }
  return given;
}

std::vector<std::size_t> filled_columns(const Document& document) {
  const auto& names = document.report.rows.columns;
  if (names.empty()) return all_columns(document.row_fields);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < document.row_fields.size(); ++i) {
    if (std::find(names.begin(), names.end(), document.row_fields[i].name) != names.end()) columns.push_back(i);
  }
  return columns;
}

std::int64_t numbers_in_rows(const Document& document) {
  if (document.report.rows.count == 0) return 0;
  Record row;
  document.report.rows.fill(0, row);
  return numbers_in_row(document, row, filled_columns(document)) * document.report.rows.count;
}

void write_json(const Document& document, JsonStyle style, const TextSink& sink, int threads) {
  const bool pretty = style == JsonStyle::pretty;
  const std::string_view open = pretty ? "{\n    " : "{";
  const std::string_view between = pretty ? ",\n    " : ", ";
  const std::string_view close = pretty ? "\n  }" : "}";
  const std::string_view next = pretty ? ",\n  " : ", ";

  const auto object = [&](std::string& out, std::span<const FieldSpec> specs, const Record& record) {
    if (specs.empty()) {
      out += "{}";
      return;
    }
    out += open;
    append_object(out, specs, record, all_columns(specs), between);
    out += close;
  };

  std::string out = pretty ? "{\n  " : "{";
  out += "\"schema\": 1";
  out += next;
  out += "\"experiment\": ";
  append_json_string(out, document.experiment);
  out += next;
  out += "\"params\": ";
  object(out, document.param_fields, document.params);
  out += next;
  out += "\"summary\": ";
  object(out, document.summary_fields, document.report.summary);
  out += next;
  out += "\"rows\": [";
  sink(out);
  out.clear();
  const auto columns = filled_columns(document);
  const RowSource& rows = document.report.rows;
  write_rows(rows, rows.count > 0 ? numbers_in_rows(document) / rows.count : 0, threads, sink,
             [&](std::string& text, std::int64_t i, const Record& row) {
               if (i > 0) text += pretty ? "," : ", ";
               if (pretty) text += "\n    ";
               text += '{';
               append_object(text, document.row_fields, row, columns, ", ");
               text += '}';
             });
  if (pretty && rows.count > 0) out += "\n  ";
  out += ']';
  if (const std::string units = units_object(document); !units.empty()) {
    out += next;
    out += "\"fields\": {";
    out += units;
    out += '}';
  }
  out += next;
  out += "\"context\": {";
  bool first = true;
  for (const auto& [name, value] : document.context) {
    if (!first) out += ", ";
    first = false;
    append_json_string(out, name);
    out += ": ";
    append_json(out, value);
  }
  out += pretty ? "}\n}\n" : "}}\n";
  sink(out);
}

CsvWriter::CsvWriter(std::vector<std::size_t> leading_params, TextSink sink, int threads)
    : leading_(std::move(leading_params)), sink_(std::move(sink)), threads_(threads) {}

void CsvWriter::write(const Document& document) {
  const bool has_rows = !document.row_fields.empty();
  const RowSource summary_row{1, [&](std::int64_t, Record& out) { out = document.report.summary; }, {}};
  const RowSource& rows = has_rows ? document.report.rows : summary_row;
  Record first_row;
  if (rows.count > 0) rows.fill(0, first_row);
  const CsvColumns columns = csv_columns(document, first_row);
  const std::string header = csv_header(document, columns, leading_);
  if (header_.empty()) {
    header_ = header;
    sink_(header);
  } else if (rows.count > 0 && header != header_) {
    throw std::invalid_argument(
        "[csv] this point's columns differ from the first point's, so they do not fit one CSV table; "
        "use --format ndjson.");
  }
  std::string leading_cells;
  for (std::size_t index : leading_) {
    if (index != leading_.front()) leading_cells += ',';
    append_cell(leading_cells, document.params[index]);
  }
  const std::int64_t per_row = rows.count > 0 && has_rows ? numbers_in_row(document, first_row, columns.fields) : 1;
  write_rows(rows, per_row, threads_, sink_, [&](std::string& out, std::int64_t i, const Record& row) {
    out += leading_cells;
    append_csv_row(out, columns, i, row, leading_.empty());
  });
}

}  // namespace poslab
