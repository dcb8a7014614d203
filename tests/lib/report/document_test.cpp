#include "poslab/report/document.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace poslab;

namespace {

struct Params {
  std::int64_t n = 3;
  std::optional<double> factor;
  std::vector<std::int64_t> order{2, 0, 1};
  static void fields(auto& self, auto&& field) {
    field("n", self.n, "", "tokens");
    field("factor", self.factor, "");
    field("order", self.order, "");
  }
};
struct Summary {
  double worst = 1e16;
  std::string note = "a \"quoted\", line\nbreak";
  static void fields(auto& self, auto&& field) {
    field("worst", self.worst, "");
    field("note", self.note, "");
  }
};
struct Row {
  std::int64_t i = 0;
  std::optional<double> score;
  std::vector<double> values;
  static void fields(auto& self, auto&& field) {
    field("i", self.i, "");
    field("score", self.score, "");
    field("values", self.values, "");
  }
};

struct Example {
  std::vector<FieldSpec> params = field_specs<Params>(), summary = field_specs<Summary>(), row = field_specs<Row>();
  std::vector<Row> rows{{0, 1.5, {0.1, -0.0}}, {1, std::nullopt, {100000, std::nan("")}}};
  Document document() const {
    Document d{"example", params, summary, row, to_record(Params{}), {}, {{"threads", std::int64_t{2}}}};
    d.report.summary = to_record(Summary{});
    d.report.rows.count = static_cast<std::int64_t>(rows.size());
    d.report.rows.fill = [this](std::int64_t i, Record& out) { out = to_record(rows[static_cast<std::size_t>(i)]); };
    return d;
  }
};

std::string json_of(const Document& document, JsonStyle style) {
  std::string out;
  write_json(document, style, [&](std::string_view text) { out += text; });
  return out;
}

std::string csv_of(const std::vector<Document>& documents, std::vector<std::size_t> leading = {}) {
  std::string out;
  CsvWriter csv(std::move(leading), [&](std::string_view text) { out += text; });
  for (const Document& document : documents) csv.write(document);
  return out;
}

std::string number(double value) {
  std::string out;
  append_number(out, value);
  return out;
}

}  // namespace

TEST_CASE("numbers are the shortest text that reads back") {
  CHECK(number(100000) == "100000");
  CHECK(number(1e16) == "1e+16");
  CHECK(number(-0.0) == "-0.0");
  CHECK(number(0.1) == "0.1");
  CHECK(number(-4.719857073336664) == "-4.719857073336664");
  CHECK(number(std::nan("")) == "null");
  CHECK(number(std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("both JSON styles say the same, in the contract's order") {
  const Example example;
  const std::string line = json_of(example.document(), JsonStyle::one_line);
  CHECK(line.find('\n') == line.size() - 1);
  const auto json = nlohmann::ordered_json::parse(line);
  CHECK(json == nlohmann::ordered_json::parse(json_of(example.document(), JsonStyle::pretty)));
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  CHECK(keys == std::vector<std::string>{"schema", "experiment", "params", "summary", "rows", "fields", "context"});
  CHECK(json["params"]["factor"].is_null());
  CHECK(json["params"]["order"] == nlohmann::ordered_json{2, 0, 1});
  CHECK(json["summary"]["note"] == "a \"quoted\", line\nbreak");
  CHECK(json["rows"][1]["score"].is_null());
  CHECK(json["rows"][1]["values"][1].is_null());
  CHECK(json["rows"][0]["values"][1].dump() == "-0.0");
  CHECK(json["fields"]["n"] == "tokens");
}

TEST_CASE("CSV has a column per list entry, empty cells for absent values, and swept parameters first") {
  const Example example;
  CHECK(csv_of({example.document()}) == "i,score,values_0,values_1\n0,1.5,0.1,-0.0\n1,,100000,\n");
  CHECK(csv_of({example.document()}, {0, 2}) ==
        "n,order,i,score,values_0,values_1\n3,\"2,0,1\",0,1.5,0.1,-0.0\n3,\"2,0,1\",1,,100000,\n");
}

TEST_CASE("a parameter that a row field is named like is told apart in CSV alone") {
  Example example;
  example.params[0].name = "score";
  CHECK(csv_of({example.document()}, {0, 1}) ==
        "params.score,factor,i,score,values_0,values_1\n3,,0,1.5,0.1,-0.0\n3,,1,,100000,\n");
  CHECK(json_of(example.document(), JsonStyle::one_line).find("\"params\": {\"score\": 3") != std::string::npos);
}

TEST_CASE("CSV of an experiment without rows is its summary's scalars") {
  const Example example;
  Document document = example.document();
  document.row_fields = {};
  document.report.rows = {};
  CHECK(csv_of({document}) == "worst,note\n1e+16,\"a \"\"quoted\"\", line\nbreak\"\n");
}

TEST_CASE("only the columns that a run fills are written, and a row that does not fit names ndjson") {
  const Example example;
  Document some = example.document();
  some.report.rows.columns = {"i", "score"};
  CHECK(csv_of({some}) == "i,score\n0,1.5\n1,\n");
  CHECK(json_of(some, JsonStyle::one_line).find("values") == std::string::npos);
  CHECK_THROWS_WITH(csv_of({example.document(), some}), doctest::Contains("ndjson"));
  CHECK(numbers_in_rows(example.document()) == 8);
}

TEST_CASE("a cell with a carriage return, line feed, comma or quote is quoted, as RFC 4180 has it") {
  for (const std::string note : {"a\rb", "a\nb", "a,b", "a\"b", "\r"}) {
    const Example example;
    Document document = example.document();
    document.row_fields = {};
    document.report.rows = {};
    document.report.summary[1] = note;
    std::string quoted = note;
    for (std::size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2) quoted.insert(at, 1, '"');
    CHECK(csv_of({document}) == "worst,note\n1e+16,\"" + quoted + "\"\n");
  }
}
