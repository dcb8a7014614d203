#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "golden.h"
#include "run_experiment.h"
#include "scratch.h"

using namespace poslab;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

TEST_CASE("permute without a file shows the order of a head's rows") {
  const auto ran = run_experiment("permute");
  CHECK(ran.summary<std::vector<std::int64_t>>("head_order") == std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(ran.summary_is_null("round_trip"));
  CHECK(ran.row<std::int64_t>(0, "moved_rows") == 24);
}

TEST_CASE("permute takes sizes and layout from the config beside the weights") {
  const Scratch scratch;
  const std::string there = scratch.path("there.safetensors"), back = scratch.path("back.safetensors");
  const auto ran = run_experiment("permute", {{"model", golden_path("llama_tiny/rope_half")}, {"save", there}});
  CHECK(ran.summary<std::int64_t>("tensors") == 4);
  CHECK(ran.summary<std::int64_t>("resolved_n_kv_heads") == 2);
  CHECK(ran.summary<bool>("round_trip"));
  CHECK(bytes_of(there) == bytes_of(golden_path("llama_tiny/rope_half_permuted/model.safetensors")));
  // This one's config says rope_interleave.
  const auto returned =
      run_experiment("permute", {{"model", golden_path("llama_tiny/rope_half_permuted")}, {"save", back}});
  CHECK(returned.summary<std::string>("resolved_from") == "interleaved");
  CHECK(bytes_of(back) == bytes_of(golden_path("llama_tiny/rope_half/model.safetensors")));
}

TEST_CASE("permute refuses what it cannot do") {
  const Scratch scratch;
  const std::string file = golden_path("llama_tiny/rope_half/model.safetensors"), to = scratch.path("x");
  CHECK(refusal("permute", {{"model", file}}) ==
        "[permute] model and save go together: the file to read and the file to write.");
  CHECK(refusal("permute", {{"model", file}, {"save", to}, {"n_heads", std::int64_t{8}}})
            .find("q_proj.weight has 32 rows but 8 heads of 8 channels need 64") != std::string::npos);
  std::filesystem::copy(file, scratch.path("alone.safetensors"));
  CHECK(refusal("permute", {{"model", scratch.path("alone.safetensors")}, {"save", to}}) ==
        "[permute] no config.json says n_heads: give it.");
  CHECK(refusal("permute", {{"model", golden_path("llama_tiny/none")}, {"save", to}}).find("has no RoPE") !=
        std::string::npos);
}
