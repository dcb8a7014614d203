// Parameters from a JSON file: a bare object, or any document of poslab (docs/contract.md, "Parameters").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/params.h"
#include "experiments/experiment.h"

namespace poslab::cli {

struct Config {
  std::string experiment;                             // named by a document, else empty
  std::vector<std::pair<std::size_t, Value>> values;  // parameter index -> value
  std::vector<std::string> sweeps;                    // "name=points"
};

// Throws std::invalid_argument or UsageError naming the source and the key; keys of a version ago are told to `note`.
Config read_config(const std::string& path, const Experiment& experiment, const Note& note);
Config parse_config(
    std::string_view text, std::string_view source, const Experiment& experiment,
    const Note& note = [](const std::string&) {});

// The experiment that a config's text names; empty when it names none.
std::string config_experiment(std::string_view text, std::string_view source);

}  // namespace poslab::cli
