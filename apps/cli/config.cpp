#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/params.h"
#include "cli/parse_value.h"
#include "poslab/formats/json_file.h"

namespace poslab::cli {
namespace {

using nlohmann::json;

constexpr int max_depth = 16;

bool is_document(const json& object) {
  return object.contains("params") || object.contains("experiment") || object.contains("schema");
}

template <class T>
T typed(const FieldSpec& field, const json& value, std::string_view where);

template <>
std::int64_t typed(const FieldSpec&, const json& value, std::string_view where) {
  if (!value.is_number_integer()) throw UsageError(fmt::format("{}: {} is not an integer", where, value.dump()));
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    throw UsageError(fmt::format("{}: {} is beyond the 64-bit integers", where, value.dump()));
  }
  return value.get<std::int64_t>();
}

template <>
double typed(const FieldSpec&, const json& value, std::string_view where) {
  if (!value.is_number()) throw UsageError(fmt::format("{}: {} is not a number", where, value.dump()));
  return value.get<double>();
}

template <>
std::string typed(const FieldSpec& field, const json& value, std::string_view where) {
  if (!value.is_string()) throw UsageError(fmt::format("{}: {} is not text", where, value.dump()));
  const auto& text = value.get_ref<const std::string&>();
  if (field.kind == FieldKind::word && std::find(field.words.begin(), field.words.end(), text) == field.words.end()) {
    throw UsageError(fmt::format("{}: '{}' is not a word of it{}", where, text, suggestion(text, field.words)));
  }
  return text;
}

template <class T>
Value scalar_or_list(const FieldSpec& field, const json& value, std::string_view where) {
  if (!field.list) return typed<T>(field, value, where);
  if (!value.is_array()) throw UsageError(fmt::format("{}: {} is not an array", where, value.dump()));
  std::vector<T> out;
  for (const json& item : value) out.push_back(typed<T>(field, item, where));
  return out;
}

Value value_of(const FieldSpec& field, const json& value, std::string_view where) {
  if (value.is_null()) {
    if (field.optional) return std::monostate{};
    throw UsageError(fmt::format("{}: null, but it is not optional", where));
  }
  switch (field.kind) {
    case FieldKind::boolean:
      if (!value.is_boolean()) throw UsageError(fmt::format("{}: {} is neither true nor false", where, value.dump()));
      return value.get<bool>();
    case FieldKind::integer:
      return scalar_or_list<std::int64_t>(field, value, where);
    case FieldKind::real:
      return scalar_or_list<double>(field, value, where);
    default:
      return scalar_or_list<std::string>(field, value, where);
  }
}

void read_sweeps(const json& value, std::string_view source, Config& config) {
  if (!value.is_array()) throw UsageError(fmt::format("{}: sweep is not an array of \"name=points\"", source));
  for (const json& item : value) {
    if (!item.is_string()) throw UsageError(fmt::format("{}: sweep: {} is not text", source, item.dump()));
    config.sweeps.push_back(item.get<std::string>());
  }
}

Config interpret(const json& root, std::string_view source, const Experiment& experiment, const Note& note) {
  if (!root.is_object()) throw UsageError(fmt::format("{}: a config is a JSON object", source));
  Config config;
  const bool document = is_document(root);
  const auto read_params = [&](const json& params) {
    if (!params.is_object()) throw UsageError(fmt::format("{}: params is not an object", source));
    for (const auto& [key, value] : params.items()) {
      if (!document && key == "sweep") continue;
      const std::size_t index = param_index(experiment, key, source, note);
      const auto is_it = [&](const auto& given) { return given.first == index; };
      if (std::any_of(config.values.begin(), config.values.end(), is_it)) {
        throw UsageError(
            fmt::format("{}: {} is given under its old and its new name", source, experiment.params[index].name));
      }
      config.values.emplace_back(index, value_of(experiment.params[index], value, fmt::format("{}: {}", source, key)));
    }
  };
  if (!document) {
    read_params(root);
  } else {
    static const std::vector<std::string> allowed{"schema", "experiment", "params", "summary",
                                                  "rows",   "context",    "sweep",  "fields"};
    for (const auto& item : root.items()) {
      if (std::find(allowed.begin(), allowed.end(), item.key()) == allowed.end()) {
        throw UsageError(
            fmt::format("{}: '{}' is no key of a document{}", source, item.key(), suggestion(item.key(), allowed)));
      }
    }
    if (const auto schema = root.find("schema"); schema != root.end() && *schema != 1) {
      throw UsageError(fmt::format("{}: schema {} is not 1", source, schema->dump()));
    }
    if (const auto name = root.find("experiment"); name != root.end()) {
      if (!name->is_string()) throw UsageError(fmt::format("{}: experiment is not text", source));
      config.experiment = name->get<std::string>();
      if (config.experiment != experiment.name) {
        throw UsageError(
            fmt::format("{}: it is a config of '{}', not of '{}'", source, config.experiment, experiment.name));
      }
    }
    if (const auto params = root.find("params"); params != root.end()) read_params(*params);
  }
  if (const auto sweep = root.find("sweep"); sweep != root.end()) read_sweeps(*sweep, source, config);
  return config;
}

}  // namespace

Config read_config(const std::string& path, const Experiment& experiment, const Note& note) {
  return interpret(read_json_file(path, max_depth), path, experiment, note);
}

Config parse_config(std::string_view text, std::string_view source, const Experiment& experiment, const Note& note) {
  return interpret(parse_json(text, source, max_depth), source, experiment, note);
}

std::string config_experiment(std::string_view text, std::string_view source) {
  const json root = parse_json(text, source, max_depth);
  return root.value("experiment", std::string());
}

}  // namespace poslab::cli
