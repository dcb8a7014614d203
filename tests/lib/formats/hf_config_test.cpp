#include "poslab/formats/hf_config.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "golden.h"

using namespace poslab;
using nlohmann::json;

namespace {

std::optional<std::string> text_or_none(const json& v) {
  return v.is_null() ? std::nullopt : std::optional(v.get<std::string>());
}

std::string error_of(const json& config) {
  try {
    model_config(config, "c.json");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool any_has(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return has(line, part); });
}

ConfigFact fact(const LayerPositions& layer, std::string_view name) {
  for (const ConfigFact& f : layer.facts) {
    if (f.name == name) return f;
  }
  FAIL("no fact " << name);
  return {};
}

// A Llama config with `extra` merged in.
json llama(const json& extra) {
  json config = {{"model_type", "llama"},
                 {"hidden_size", 4096},
                 {"num_attention_heads", 32},
                 {"max_position_embeddings", 4096},
                 {"rope_theta", 10000.0}};
  config.merge_patch(extra);
  for (const auto& [key, value] : extra.items()) config[key] = value;
  return config;
}

// What a line of ours must mention for each line of upstream's.
std::string mention(const std::string& upstream) {
  const std::string_view text = upstream;
  if (has(text, "Unrecognized keys")) return "has no effect";
  if (has(text, "Missing validation function")) return "not known to transformers";
  if (has(text, "factor field must be a float or int >= 1, got None")) return "factor is not given";
  if (has(text, "factor field must be a float or int >= 1")) return "below 1";
  if (has(text, "does not match the ratio"))
    return has(text, "= None)") ? "factor is not given" : "the factor given is used";
  if (has(text, "attention_factor field must be a float greater than 0, got 1")) return "integer";
  if (has(text, "attention_factor field must be")) return "below 0";
  if (has(text, "high_freq_factor field must be greater")) return "not above low_freq_factor";
  if (has(text, "must be less than max_position_embeddings")) return "not below max_position_embeddings";
  if (has(text, "beta_fast field must be greater")) return "below beta_slow";
  if (has(text, "partial_rotary_factor is None")) return "partial_rotary_factor is not given";
  if (has(text, "This model config has set a")) return "factor is not given";
  FAIL("unforeseen upstream warning: " << upstream);
  return "";
}

void check_warnings(const json& expected, const ModelConfig& read) {
  for (const std::string line : expected) {
    CHECK_MESSAGE(any_has(read.warnings, mention(line)),
                  fmt::format("{} <- {}", fmt::join(read.warnings, " | "), line));
  }
}

struct TempDir {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("poslab_hf_" + std::to_string(::getpid()));
  TempDir() { std::filesystem::create_directories(path); }
  ~TempDir() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("hf_config: the frequencies of 110 configs as transformers gives them") {
  const json cases = golden("rope_frequencies.json");
  REQUIRE(cases.size() == 110);
  for (const json& c : cases) {
    const std::string name = c["name"];
    CAPTURE(name);
    ModelConfig read;
    REQUIRE_NOTHROW(read = model_config(c["config"], name));
    const LayerPositions& layer = layer_positions(read, text_or_none(c["layer_type"]));
    std::optional<std::int64_t> seq_len;
    if (!c["seq_len"].is_null()) seq_len = c["seq_len"];
    const RopeFrequencies got = rope_frequencies(layer.rope, seq_len);

    const std::vector<double> want = c["inv_freq_f64"];
    REQUIRE(got.inv_freq.size() == want.size());
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, want[i] == 0 ? std::abs(got.inv_freq[i]) : std::abs(got.inv_freq[i] / want[i] - 1));
    }
    CHECK(worst < 1e-12);
    CHECK(std::abs(got.attention_factor - c["attention_factor"].get<double>()) < 1e-12);
    CHECK(std::abs(layer.softmax_multiplier - c.value("softmax_scale_multiplier", 1.0)) < 1e-12);
    CHECK(to_word(layer.rope.rope_type) == c["rope_type"].get<std::string>());
    check_warnings(c.value("warnings", json::array()), read);
  }
}

TEST_CASE("hf_config: what transformers refuses, warns about and accepts") {
  for (const json& c : golden("config_validation.json")) {
    const std::string name = c["name"];
    CAPTURE(name);
    const bool ntk = name == "unknown type ntk";  // refused there, known here
    const bool refused = !ntk && (c["config_result"] != "ok" || c["rotary_init"] != "ok");
    const std::string error = error_of(c["config"]);
    CHECK_MESSAGE(error.empty() != refused, error);
    if (refused) {
      MESSAGE(name << ": " << error);
      continue;
    }
    const ModelConfig read = model_config(c["config"], name);
    check_warnings(c["warnings"], read);
    const json& want = c["resolved_rope_parameters"];
    for (const LayerPositions& layer : read.layers) {
      const json& set = layer.layer_type.empty() ? want : want[layer.layer_type];
      CHECK(layer.rope.rope_theta == set["rope_theta"].get<double>());
      CHECK(to_word(layer.rope.rope_type) == set["rope_type"].get<std::string>());
      if (set.contains("factor") && set["factor"].is_number() && layer.rope.factor) {
        CHECK(*layer.rope.factor == set["factor"].get<double>());
      }
    }
  }
}
