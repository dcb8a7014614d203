#include "experiments/rope_params.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "golden.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

using namespace poslab;

namespace {

const RopeFallbacks fallbacks{.rope_type = yarn_scaling, .original_max_position_embeddings = 4096};

// A config.json that lives as long as the test.
class ConfigFile {
 public:
  explicit ConfigFile(const nlohmann::json& config) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("poslab_rope_params_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".json");
    std::ofstream(path_) << config;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string why_not(const RopeParams& params, std::optional<std::int64_t> seq_len = std::nullopt) {
  try {
    resolve_rope(params, fallbacks, seq_len);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

bool mentions(const std::vector<std::string>& sentences, std::string_view word) {
  for (const std::string& sentence : sentences) {
    if (sentence.find(word) != std::string::npos) return true;
  }
  return false;
}

nlohmann::json llama_config() {
  return {{"model_type", "llama"},
          {"hidden_size", 4096},
          {"num_attention_heads", 32},
          {"max_position_embeddings", 4096},
          {"rope_theta", 10000.0}};
}

}  // namespace

TEST_CASE("without anything: the example's own model") {
  const ResolvedRope r = resolve_rope({}, fallbacks);
  CHECK(r.scaling.rope_type == yarn_scaling);
  CHECK(r.scaling.rope_theta == 10000);
  CHECK(r.scaling.rotary_dim == 128);
  CHECK(r.scaling.original_max_position_embeddings == 4096);
  CHECK(r.target_length == 16384);
  CHECK(r.scaling.factor == 4);
  CHECK(r.warnings.empty());
}

TEST_CASE("an absent factor is max(1, seq_len / original length)") {
  RopeParams p;
  for (const Scaling* row : all_scalings) {
    const RopeType type = *row;
    if (!type->uses_factor || type == longrope_scaling) continue;
    CAPTURE(type.word());
    p.rope_type = type;
    CHECK(resolve_rope(p, fallbacks, 32768).scaling.factor == 8);
    CHECK(resolve_rope(p, fallbacks, 1024).scaling.factor == 1);
    CHECK(resolve_rope(p, fallbacks, 1024).target_length == 1024);
  }
  p.original_max_position_embeddings = 8192;
  CHECK(resolve_rope(p, fallbacks, 65536).scaling.factor == 8);
  CHECK(resolve_rope(p, fallbacks).target_length == 4 * 8192);
  p.factor = 16;
  CHECK(resolve_rope(p, fallbacks).target_length == 16 * 8192);
  CHECK(resolve_rope(p, fallbacks, 9000).scaling.factor == 16);
}

TEST_CASE("flags are strict, and each refusal names the values") {
  const auto with = [](auto&& change) {
    RopeParams p;
    change(p);
    return why_not(p);
  };
  CHECK(with([](RopeParams& p) { p.factor = 0.5; }).find("factor must be at least 1 but got 0.5") != std::string::npos);
  CHECK(with([](RopeParams& p) { p.factor = std::numeric_limits<double>::infinity(); }) != "");
  CHECK(with([](RopeParams& p) { p.beta_fast = 1; }).find("beta_fast must be above beta_slow") != std::string::npos);
  CHECK(with([](RopeParams& p) { p.beta_slow = 40; }) != "");
  CHECK(with([](RopeParams& p) { p.original_max_position_embeddings = 0; }).find("at least 1") != std::string::npos);
  CHECK(with([](RopeParams& p) { p.max_position_embeddings = -1; }) != "");
  CHECK(with([](RopeParams& p) { p.rope_theta = 0; }) != "");
  CHECK(with([](RopeParams& p) { p.rotary_dim = 7; }).find("even") != std::string::npos);
  CHECK(with([](RopeParams& p) { p.rotary_dim = 256; }).find("head_dim (128)") != std::string::npos);
  CHECK(with([](RopeParams& p) { p.head_dim = 0; }) != "");
  CHECK(with([](RopeParams& p) { p.head_dim = std::int64_t{1} << 40; }) != "");
  CHECK(with([](RopeParams& p) { p.partial_rotary_factor = 1.5; }) != "");
  CHECK(with([](RopeParams& p) { p.high_freq_factor = 1; }) != "");
  CHECK(with([](RopeParams& p) { p.attention_factor = -1; }) != "");
  CHECK(with([](RopeParams& p) { p.layer_type = "full_attention"; }).find("no model") != std::string::npos);
  CHECK(with([](RopeParams& p) {
          p.rotary_dim = 64;
          p.partial_rotary_factor = 0.25;
        }).find("contradict") != std::string::npos);
  CHECK(why_not({}, 0).find("seq_len") != std::string::npos);
  RopeParams attention;
  attention.attention_factor = 0.0;  // counts, and makes every score 0
  CHECK(resolved_frequencies(resolve_rope(attention, fallbacks)).attention_factor == 0);
}

TEST_CASE("the length of pre-training is never made up for a model that flags describe") {
  RopeParams p;
  p.rope_theta = 500000;
  p.factor = 8;
  for (RopeType type : std::vector<RopeType>{yarn_scaling, llama3_scaling, dynamic_scaling, ntk_by_parts_scaling}) {
    p.rope_type = type;
    CHECK(why_not(p).find("needs original_max_position_embeddings") != std::string::npos);
    CHECK(rope_type_left_out(p, fallbacks).find("needs original_max_position_embeddings") != std::string::npos);
  }
  // The others do not look at it for their frequencies: taken from the example, and said.
  p.rope_type = ntk_scaling;
  CHECK(mentions(resolve_rope(p, fallbacks).warnings, "4096"));
  p.rope_type = yarn_scaling;
  p.max_position_embeddings = 8192;
  CHECK(original_length(resolve_rope(p, fallbacks).scaling) == 8192);
}

TEST_CASE("what a sweep over all types leaves out") {
  RopeParams p;
  std::vector<std::string> left_out;
  for (const Scaling* row : all_scalings) {
    const RopeType type = *row;
    p.rope_type = type;
    if (!rope_type_left_out(p, fallbacks).empty()) left_out.emplace_back(type.word());
  }
  CHECK(left_out == std::vector<std::string>{"longrope"});
  p.rope_type = longrope_scaling;
  p.short_factor = std::vector<double>(64, 1.0);
  p.long_factor = std::vector<double>(64, 4.0);
  CHECK(rope_type_left_out(p, fallbacks).empty());
  // A wrong length is an error of the run, not a reason to leave the type out.
  p.long_factor->pop_back();
  CHECK(rope_type_left_out(p, fallbacks).empty());
  CHECK_THROWS_WITH_AS(resolved_frequencies(resolve_rope(p, fallbacks)), doctest::Contains("long_factor"),
                       std::invalid_argument);
  RopeParams pair;
  pair.head_dim = 2;
  pair.original_max_position_embeddings = 4096;
  for (RopeType type : std::vector<RopeType>{dynamic_scaling, ntk_scaling}) {
    pair.rope_type = type;
    CHECK(rope_type_left_out(pair, fallbacks).find("rotary_dim - 2") != std::string::npos);
  }
}

TEST_CASE("a model supplies what no flag gives") {
  nlohmann::json config = llama_config();
  const ConfigFile plain(config);
  RopeParams p;
  p.model = plain.path();
  ResolvedRope r = resolve_rope(p, fallbacks);
  CHECK(r.scaling.rope_type == default_scaling);
  CHECK(r.layout == RopeLayout::half);
  CHECK(r.target_length == 4096);
  CHECK_FALSE(r.seq_len);

  p.rope_type = yarn_scaling;
  r = resolve_rope(p, fallbacks, 32768);
  CHECK(r.scaling.factor == 8);
  p.rope_theta = 500000;
  r = resolve_rope(p, fallbacks, 32768);
  CHECK(r.scaling.rope_theta == 500000);
  CHECK(mentions(r.warnings, "replaces the model's 10000"));

  // Values that flags may not have are followed in a file.
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 0.5}, {"original_max_position_embeddings", 2048}};
  const ConfigFile odd(config);
  RopeParams of_file;
  of_file.model = odd.path();
  CHECK(resolve_rope(of_file, fallbacks).scaling.factor == 0.5);
}

TEST_CASE("MLA: the softmax multiplier follows a factor given by flag") {
  nlohmann::json config;
  for (const auto& c : golden("rope_frequencies.json")) {
    if (c.at("name") == "deepseek-v3") config = c.at("config");
  }
  const ConfigFile file(config);
  RopeParams p;
  p.model = file.path();
  CHECK(resolve_rope(p, fallbacks).softmax_multiplier == doctest::Approx(1.8738542070926265).epsilon(1e-14));
  p.factor = 16;
  CHECK(resolve_rope(p, fallbacks).softmax_multiplier == doctest::Approx(1.2772588722 * 1.2772588722).epsilon(1e-9));
  p.rope_type = default_scaling;
  CHECK(resolve_rope(p, fallbacks).softmax_multiplier == 1);
}

TEST_CASE("a model as loaded: the length it reads, its base in training, its other sets") {
  nlohmann::json config = llama_config();
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  const ConfigFile linear(config);
  RopeParams p;
  p.model = linear.path();
  p.rope_theta = 20000;
  ResolvedRope r = resolve_rope(p, fallbacks);
  CHECK(r.target_length == 4096);
  CHECK(mentions(r.warnings, "before scaling"));
  CHECK(r.trained_theta == 10000);

  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 4096}};
  const ConfigFile yarn(config);
  p = {};
  p.model = yarn.path();
  CHECK(resolve_rope(p, fallbacks).target_length == 32768);

  const ConfigFile gemma({{"model_type", "gemma3_text"}, {"num_hidden_layers", 6}, {"head_dim", 256}});
  p.model = gemma.path();
  r = resolve_rope(p, fallbacks);
  CHECK(r.layer_type == "full_attention");
  CHECK(mentions(r.warnings, "sliding_attention"));
  p.layer_type = "sliding_attention";
  r = resolve_rope(p, fallbacks);
  CHECK(r.scaling.rope_theta == 10000);
  CHECK_FALSE(mentions(r.warnings, "other"));
}
