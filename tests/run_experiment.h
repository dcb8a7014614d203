// Runs an experiment in-process, parameters and results by name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/experiment.h"

struct RanExperiment {
  const poslab::Experiment& experiment;
  poslab::Report report;

  template <class T>
  T summary(std::string_view name) const {
    return std::get<T>(value(experiment.summary, report.summary, name));
  }
  template <class T>
  T row(std::int64_t index, std::string_view name) const {
    poslab::Record record;
    report.rows.fill(index, record);
    return std::get<T>(value(experiment.row, record, name));
  }
  bool summary_is_null(std::string_view name) const {
    return std::holds_alternative<std::monostate>(value(experiment.summary, report.summary, name));
  }
  bool row_is_null(std::int64_t index, std::string_view name) const {
    poslab::Record record;
    report.rows.fill(index, record);
    return std::holds_alternative<std::monostate>(value(experiment.row, record, name));
  }

 private:
  static const poslab::Value& value(const std::vector<poslab::FieldSpec>& specs, const poslab::Record& record,
                                    std::string_view name) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name == name) return record.at(i);
    }
    throw std::logic_error("no field " + std::string(name));
  }
};

using Settings = std::vector<std::pair<std::string, poslab::Value>>;

// Of two that set one parameter, the later counts.
inline Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// The defaults, with `settings` in their place.
inline RanExperiment run_experiment(std::string_view name, const Settings& settings = {}, int threads = 1) {
  const poslab::Experiment* experiment = poslab::find_experiment(name);
  if (!experiment) throw std::logic_error("no experiment " + std::string(name));
  poslab::Record params;
  for (const auto& spec : experiment->params) params.push_back(spec.fallback);
  for (const auto& [field, value] : settings) {
    std::size_t i = 0;
    while (i < params.size() && experiment->params[i].name != field) ++i;
    if (i == params.size()) throw std::logic_error("no parameter " + field);
    params[i] = value;
  }
  poslab::RunContext context;
  context.threads = threads;
  return {*experiment, experiment->run(params, context)};
}

// What the run says when it refuses, or nothing.
inline std::string refusal(std::string_view name, const Settings& settings) {
  try {
    run_experiment(name, settings);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}
