// The options that every experiment shares; they stand in no document's params.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab::cli {

enum class Format { auto_, text, json, ndjson, csv };
struct FormatRow {
  Format format;
  std::string_view word;
  std::string_view ending;  // of --output; empty: none
};
constexpr FormatRow format_rows[] = {{Format::auto_, "auto", ""},
                                     {Format::text, "text", ".txt"},
                                     {Format::json, "json", ".json"},
                                     {Format::ndjson, "ndjson", ".ndjson"},
                                     {Format::csv, "csv", ".csv"}};
constexpr auto words(Format) {
  std::array<std::pair<Format, std::string_view>, std::size(format_rows)> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = {format_rows[i].format, format_rows[i].word};
  return table;
}

enum class Color { auto_, always, never };
constexpr auto words(Color) {
  return word_table<Color>({{Color::auto_, "auto"}, {Color::always, "always"}, {Color::never, "never"}});
}

enum class CsvParams { swept, all };
constexpr auto words(CsvParams) {
  return word_table<CsvParams>({{CsvParams::swept, "swept"}, {CsvParams::all, "all"}});
}

struct RunOptions {
  Format format = Format::auto_;
  std::optional<FilePath> output, config;
  std::vector<std::string> sweep;  // the one option that may be repeated
  std::int64_t jobs = 1;
  std::optional<std::string> shard;
  bool resume = false;
  std::optional<std::int64_t> threads;
  bool quiet = false;
  Color color = Color::auto_;
  std::optional<FilePath> save_npy;
  CsvParams csv_params = CsvParams::swept;
  std::optional<std::string> expect;

  static void fields(auto& self, auto&& field) {
    field("format", self.format,
          "auto: by the ending of --output, else text on a terminal, else json (ndjson for a sweep)");
    field("output", self.output, "write to this file (through FILE.partial) instead of stdout");
    field("config", self.config, "read parameters from a JSON file or from any poslab document; flags win");
    field("sweep", self.sweep,
          "run once per point: name=a,b,c or name=first:last:+step or name=first:last:*factor; repeatable");
    field("jobs", self.jobs, "points of a sweep that run side by side");
    field("shard", self.shard, "run only the i-th of n shares of a sweep's points, as i/n");
    field("resume", self.resume, "keep the points that the ndjson --output already holds");
    field("threads", self.threads, "threads per point (default: cores / jobs); results never depend on it");
    field("quiet", self.quiet, "no progress and no notes on stderr");
    field("color", self.color, "colours in text output");
    field("save_npy", self.save_npy, "write the experiment's tensor to this .npy file");
    field("csv_params", self.csv_params, "parameter columns before the row's own in CSV");
    field("expect", self.expect, "exit with status 1 unless the verdict is this word");
  }
};

}  // namespace poslab::cli
