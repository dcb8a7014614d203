#include "cli/list_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cli/flag_text.h"
#include "experiments/experiment.h"
#include "poslab/core/fields.h"
#include "poslab/methods/method.h"
#include "poslab/model_configs/model_list.h"
#include "poslab/report/document.h"
#include "poslab/rope/scalings.h"

namespace poslab::cli {
namespace {

// The experiments that take a word in one of these parameters.
std::vector<std::string> taken_by(std::string_view word, std::span<const std::string_view> params) {
  std::vector<std::string> names;
  for (const std::string& name : experiment_names()) {
    const auto takes = [&](const FieldSpec& field) {
      return std::find(params.begin(), params.end(), field.name) != params.end() &&
             std::find(field.words.begin(), field.words.end(), word) != field.words.end();
    };
    const std::vector<FieldSpec>& fields = find_experiment(name)->params;
    if (std::any_of(fields.begin(), fields.end(), takes)) names.push_back(name);
  }
  return names;
}

struct ListedScaling {
  std::string word, title, sentence, source, used_by;
  std::vector<std::string> experiments;

  static void fields(auto& self, auto&& field) {
    field("word", self.word);
    field("title", self.title);
    field("sentence", self.sentence);
    field("source", self.source);
    field("used_by", self.used_by);
    field("experiments", self.experiments);
  }
};

std::vector<ListedScaling> scalings_by_line() {
  static constexpr std::string_view params[] = {"rope_type", "extend_types"};
  std::vector<ListedScaling> listed;
  for (const Scaling* s : all_scalings) {
    const auto text = [](std::string_view view) { return std::string(view); };
    listed.push_back({text(s->word), text(s->title), text(s->sentence), text(s->source), text(s->used_by),
                      taken_by(s->word, params)});
  }
  return listed;
}

struct ListedMethod {
  std::string word, sentence, source, used_by;
  std::vector<Place> acts_on;
  std::vector<std::string> parameters, experiments;

  static void fields(auto& self, auto&& field) {
    field("word", self.word);
    field("sentence", self.sentence);
    field("source", self.source);
    field("used_by", self.used_by);
    field("acts_on", self.acts_on);
    field("parameters", self.parameters);
    field("experiments", self.experiments);
  }
};

std::vector<ListedMethod> methods_by_line() {
  static constexpr std::string_view params[] = {"encoding", "encodings"};
  std::vector<ListedMethod> listed;
  for (const Method* m : all_methods()) {
    ListedMethod& line = listed.emplace_back();
    line.word = m->word();
    line.sentence = m->sentence();
    line.source = m->source();
    line.used_by = m->used_by();
    line.acts_on = m->places();
    for (const FieldSpec& field : m->parameters()) line.parameters.push_back(field.name);
    line.experiments = taken_by(m->word(), params);
  }
  return listed;
}

struct Table {
  std::vector<FieldSpec> fields;
  std::vector<Record> rows;
};

template <class T>
Table table_of(const std::vector<T>& entries) {
  Table table{field_specs<T>(), {}};
  for (const T& entry : entries) table.rows.push_back(to_record(entry));
  return table;
}

Table table_of_kind(std::string_view kind) {
  if (kind == "models") return table_of(listed_models());
  return kind == "methods" ? table_of(methods_by_line()) : table_of(scalings_by_line());
}

std::string cell(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "-";
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty() ? "-" : *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return list->empty() ? std::string("-") : fmt::format("{}", fmt::join(*list, ", "));
  std::string out;
  append_json(out, value);
  return out;
}

}  // namespace

std::string word_list_text(std::string_view kind) {
  const Table table = table_of_kind(kind);
  std::string out;
  if (kind == "models") {
    std::vector<std::vector<std::string>> lines(1);
    for (const FieldSpec& field : table.fields) lines.front().push_back(field.name);
    for (const Record& row : table.rows) {
      std::vector<std::string>& line = lines.emplace_back();
      for (const Value& value : row) line.push_back(cell(value));
    }
    for (const auto& line : lines) {
      for (std::size_t c = 0; c < line.size(); ++c) {
        const auto shorter = [&](const auto& a, const auto& b) { return a[c].size() < b[c].size(); };
        const std::size_t width = (*std::max_element(lines.begin(), lines.end(), shorter))[c].size();
        out += c + 1 == line.size() ? line[c] + '\n' : fmt::format("{:<{}}  ", line[c], width);
      }
    }
    return out;
  }
  for (const Record& row : table.rows) {
    out += cell(row.front()) + '\n';
    for (std::size_t i = 1; i < row.size(); ++i) {
      out += fmt::format("  {:<11}  {}\n", table.fields[i].name, wrapped(cell(row[i]), 15, 85));
    }
  }
  return out;
}

std::string word_list_json(std::string_view kind) {
  const Table table = table_of_kind(kind);
  std::string out = fmt::format("{{\n  \"schema\": 1,\n  \"{}\": [", kind);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    out += r ? ",\n    {" : "\n    {";
    for (std::size_t i = 0; i < table.fields.size(); ++i) {
      out += fmt::format("{}\"{}\": ", i ? ", " : "", table.fields[i].name);
      append_json(out, table.rows[r][i]);
    }
    out += '}';
  }
  return out + "\n  ]\n}\n";
}

}  // namespace poslab::cli
