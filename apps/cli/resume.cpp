#include "cli/resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/build_info.h"
#include "cli/config.h"
#include "cli/params.h"
#include "cli/parse_value.h"
#include "poslab/formats/json_file.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

std::string key_of(const Record& params) {
  std::string key;
  for (const Value& value : params) {
    append_json(key, value);
    key += ' ';
  }
  return key;
}

}  // namespace

ResumedLines::ResumedLines(const Experiment& experiment, OutputFile& file,
                           const std::function<void(std::string)>& note) {
  std::string contents = file.partial_contents();
  if (contents.empty()) {
    std::ifstream finished(file.path(), std::ios::binary);
    std::ostringstream text;
    if (finished) text << finished.rdbuf();
    contents = text.str();
  }
  contents.erase(contents.rfind('\n') + 1);

  bool warned = false;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < contents.size();) {
    const std::size_t end = contents.find('\n', begin) + 1;
    const std::string text = contents.substr(begin, end - begin);
    begin = end;
    const std::string source = fmt::format("{} line {}", file.path(), ++number);
    const nlohmann::json document = parse_json(text, source);
    // Only the keys that say which point it is; the rest may be large.
    if (!document.is_object() || !document.contains("experiment") || !document.contains("params")) {
      throw UsageError(fmt::format("{}: not a document of poslab", source));
    }
    nlohmann::json point{{"experiment", document["experiment"]}, {"params", document["params"]}};
    Record params = default_record(experiment);
    for (const auto& [index, value] : parse_config(point.dump(), source, experiment).values) params[index] = value;
    Line line{text, {}};
    if (const auto summary = document.find("summary"); summary != document.end() && summary->is_object()) {
      if (const auto verdict = summary->find("verdict"); verdict != summary->end() && verdict->is_string()) {
        line.verdict = verdict->get<std::string>();
      }
    }
    const auto context = document.find("context");
    const std::string made_by =
        context != document.end() && context->is_object() ? context->value("version", std::string()) : std::string();
    if (made_by != version() && !warned) {
      note(fmt::format("{} was written by poslab {}, this is {}", source, made_by, version()));
      warned = true;
    }
    ++read_;
    first_lines_.push_back(text);
    lines_.emplace(key_of(params), std::move(line));
  }
  file.replace_partial(contents);
}

const ResumedLines::Line* ResumedLines::find(const Record& params) const {
  const auto found = lines_.find(key_of(params));
  return found == lines_.end() ? nullptr : &found->second;
}

void ResumedLines::emitted(const std::string& line, bool resumed) {
  if (resumed) {
    in_order_ = in_order_ && reused_ == order_.size() && first_lines_[reused_] == line;
    ++reused_;
  }
  order_.push_back(line);
}

void ResumedLines::put_in_order(OutputFile& file) const {
  if (in_order_ && reused_ == read_) return;
  std::string contents;
  for (const std::string& line : order_) contents += line;
  file.replace_partial(contents);
}

}  // namespace poslab::cli
