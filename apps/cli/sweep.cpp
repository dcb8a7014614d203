#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/params.h"
#include "cli/parse_value.h"
#include "poslab/core/numbers.h"
#include "poslab/core/ranges.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

std::vector<Value> listed_points(const FieldSpec& field, std::string_view text, std::string_view where) {
  const char separator = field.list ? ';' : ',';
  std::vector<Value> points;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    points.push_back(parse_value(field, text.substr(begin, end - begin), where));
    if (std::find(points.begin(), points.end() - 1, points.back()) != points.end() - 1) {
      throw UsageError(fmt::format("{}: the point '{}' is repeated", where, text.substr(begin, end - begin)));
    }
    if (end == std::string_view::npos) return points;
    begin = end + 1;
  }
}

}  // namespace

Sweep::Sweep(const Experiment& experiment, const std::vector<std::string>& axes, const Record& base,
             const std::function<void(std::string)>& note)
    : experiment_(experiment) {
  for (const std::string& text : axes) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError(fmt::format("--sweep '{}': write it name=points", text));
    }
    std::string name = text.substr(0, equals);
    std::replace(name.begin(), name.end(), '-', '_');
    const std::string_view points = std::string_view(text).substr(equals + 1);
    const std::string where = fmt::format("--sweep {}", name);
    const std::size_t param = param_index(experiment, name, where, note);
    const FieldSpec& field = experiment.params[param];
    if (std::find(params_.begin(), params_.end(), param) != params_.end()) {
      throw UsageError(fmt::format("{}: this parameter is swept twice", where));
    }

    Axis axis{param, 0, nullptr};
    if (field.kind == FieldKind::word && !field.list && points == "all") {
      auto kept = std::make_shared<std::vector<Value>>();
      for (const std::string& word : field.words) {
        Record record = base;
        record[param] = word;
        if (const std::string why = experiment.excluded ? experiment.excluded(record) : ""; !why.empty()) {
          note(fmt::format("{} {} is left out: {}", flag_of(name), word, why));
        } else {
          kept->push_back(word);
        }
      }
      axis.size = static_cast<std::int64_t>(kept->size());
      axis.at = [kept](std::int64_t i) { return (*kept)[static_cast<std::size_t>(i)]; };
    } else if (field.kind == FieldKind::integer && !field.list && points != "null") {
      auto range = std::make_shared<Range<std::int64_t>>(Range<std::int64_t>::parse(points, where));
      axis.size = range->size();
      axis.at = [range](std::int64_t i) -> Value { return range->at(i); };
    } else if (field.kind == FieldKind::real && !field.list && points != "null") {
      auto range = std::make_shared<Range<double>>(Range<double>::parse(points, where));
      axis.size = range->size();
      axis.at = [range](std::int64_t i) -> Value { return range->at(i); };
    } else {
      auto listed = std::make_shared<std::vector<Value>>(listed_points(field, points, where));
      axis.size = static_cast<std::int64_t>(listed->size());
      axis.at = [listed](std::int64_t i) { return (*listed)[static_cast<std::size_t>(i)]; };
    }
    if (axis.size > 0 && size_ > max_points / axis.size) {
      throw UsageError(fmt::format("{}: a sweep has at most {} points", where, max_points));
    }
    size_ *= axis.size;
    params_.push_back(param);
    axes_.push_back(std::move(axis));
  }
}

Record Sweep::point(const Record& base, std::int64_t index) const {
  Record record = base;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    record[axis->param] = axis->at(index % axis->size);
    index /= axis->size;
  }
  return record;
}

std::string Sweep::describe(const Record& record) const {
  std::string out;
  for (std::size_t param : params_) {
    if (!out.empty()) out += ", ";
    out += experiment_.params[param].name;
    out += '=';
    const Value& value = record[param];
    if (const auto* text = std::get_if<std::string>(&value)) {
      out += *text;
    } else {
      append_json(out, value);
    }
  }
  return out;
}

}  // namespace poslab::cli
