#include "poslab/model_configs/permute.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/formats/safetensors.h"
#include "scratch.h"

using namespace poslab;

namespace {

constexpr PermuteSizes tiny{.n_heads = 4, .n_kv_heads = 2, .head_dim = 8, .rotary_dim = 8};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string error_of(auto call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("permute: half to interleaved is [0, 4, 1, 5, 2, 6, 3, 7] in each head") {
  CHECK(layout_rows(RopeLayout::half, RopeLayout::interleaved, 2, 8, 8) ==
        std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15});
  CHECK(layout_rows(RopeLayout::half, RopeLayout::interleaved, 1, 8, 4) ==
        std::vector<std::int64_t>{0, 2, 1, 3, 4, 5, 6, 7});
  CHECK(layout_rows(RopeLayout::half, RopeLayout::half, 1, 4, 4) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(error_of([] { layout_rows(RopeLayout::half, RopeLayout::half, 1, 4, 3); }).find("[permute] 1 heads of 4") == 0);
}

TEST_CASE("permute: names") {
  CHECK(rotated_tensor("model.layers.0.self_attn.q_proj.weight") == RotatedTensor::query);
  CHECK(rotated_tensor("model.layers.0.self_attn.k_proj.bias") == RotatedTensor::key);
  CHECK(rotated_tensor("model.layers.0.self_attn.k_norm.weight") == RotatedTensor::key_norm);
  CHECK(rotated_tensor("gpt_neox.layers.0.attention.query_key_value.bias") == RotatedTensor::fused_grouped);
  CHECK(rotated_tensor("model.layers.0.self_attn.qkv_proj.weight") == RotatedTensor::fused_stacked);
  CHECK(rotated_tensor("model.layers.0.self_attn.v_proj.weight") == std::nullopt);
  CHECK(rotated_tensor("language_model.model.layers.0.self_attn.q_proj.weight") == RotatedTensor::query);
  CHECK(rotated_tensor("vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight") == std::nullopt);
  CHECK(rotated_tensor("xq_proj.weight") == std::nullopt);
  CHECK(rotated_tensor("q_proj") == std::nullopt);
}

TEST_CASE("permute: rope_half becomes rope_half_permuted, byte for byte, and comes back") {
  const Scratch scratch;
  const std::string half = golden_path("llama_tiny/rope_half/model.safetensors"),
                    interleaved = golden_path("llama_tiny/rope_half_permuted/model.safetensors");
  const auto changed = permute_file(half, scratch.path("there"), RopeLayout::half, RopeLayout::interleaved, tiny);
  CHECK(bytes_of(scratch.path("there")) == bytes_of(interleaved));
  REQUIRE(changed.size() == 4);
  CHECK(std::count_if(changed.begin(), changed.end(), [](const auto& t) { return t.heads == 2; }) == 2);
  CHECK(changed[0].moved_rows == changed[0].heads * 6);
  permute_file(scratch.path("there"), scratch.path("back"), RopeLayout::interleaved, RopeLayout::half, tiny);
  CHECK(bytes_of(scratch.path("back")) == bytes_of(half));
}

TEST_CASE("permute: biases and norms move with their weights, others stay") {
  const Scratch scratch;
  const std::vector<float> bias = {0, 1, 2, 3}, weight = {0, 0.5F, 1, 1.5F, 2, 2.5F, 3, 3.5F};
  const std::vector<SafetensorsEntry<float>> entries = {{"a.q_proj.bias", {4}, bias},
                                                        {"a.q_proj.weight", {4, 2}, weight},
                                                        {"a.q_norm.weight", {4}, bias},
                                                        {"a.v_proj.bias", {4}, bias}};
  write_safetensors<float>(scratch.path("from"), entries, {});
  permute_file(scratch.path("from"), scratch.path("to"), RopeLayout::half, RopeLayout::interleaved,
               {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4, .rotary_dim = 4});
  const SafetensorsFile file(scratch.path("to"));
  const auto values = [&](const char* name) {
    std::vector<float> out(static_cast<std::size_t>(file.find(name)->size));
    file.read<float>(*file.find(name), out);
    return out;
  };
  CHECK(values("a.q_proj.bias") == std::vector<float>{0, 2, 1, 3});
  CHECK(values("a.q_norm.weight") == std::vector<float>{0, 2, 1, 3});
  CHECK(values("a.q_proj.weight") == std::vector<float>{0, 0.5F, 2, 2.5F, 1, 1.5F, 3, 3.5F});
  CHECK(values("a.v_proj.bias") == bias);
}

TEST_CASE("permute: q and k move inside tensors that hold v too") {
  // Two heads of 4 channels, one key head: q0 q1 k v in either order; half's rows 0 2 1 3 make pairs of neighbours.
  PermuteSizes sizes{.n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .rotary_dim = 4};
  const auto rows = [&](RotatedTensor kind, std::int64_t n) {
    return tensor_rows("t", kind, n, RopeLayout::half, RopeLayout::interleaved, sizes);
  };
  const std::vector<std::int64_t> one_key = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 13, 14, 15};
  CHECK(rows(RotatedTensor::fused_stacked, 16) == one_key);
  CHECK(rows(RotatedTensor::fused_grouped, 16) == one_key);
  // Two key heads: q0 k0 v0 q1 k1 v1, or q0 q1 k0 k1 v0 v1.
  sizes = {.n_heads = 2, .n_kv_heads = 2, .head_dim = 4, .rotary_dim = 4};
  const auto grouped = rows(RotatedTensor::fused_grouped, 24), stacked = rows(RotatedTensor::fused_stacked, 24);
  CHECK(std::vector<std::int64_t>(grouped.begin() + 8, grouped.begin() + 16) ==
        std::vector<std::int64_t>{8, 9, 10, 11, 12, 14, 13, 15});
  CHECK(std::vector<std::int64_t>(stacked.begin() + 8, stacked.begin() + 20) ==
        std::vector<std::int64_t>{8, 10, 9, 11, 12, 14, 13, 15, 16, 17, 18, 19});
  sizes.fused = FusedOrder::stacked;
  CHECK(rows(RotatedTensor::fused_grouped, 24) == stacked);
  // Part of the head: the rest stays.
  sizes = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 6, .rotary_dim = 4};
  const auto part = rows(RotatedTensor::fused_grouped, 18);
  CHECK(std::vector<std::int64_t>(part.begin(), part.begin() + 8) == std::vector<std::int64_t>{0, 2, 1, 3, 4, 5, 6, 8});
  // Norms over one head or all.
  sizes = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .rotary_dim = 4};
  CHECK(rows(RotatedTensor::query_norm, 4) == std::vector<std::int64_t>{0, 2, 1, 3});
  CHECK(rows(RotatedTensor::query_norm, 8) == std::vector<std::int64_t>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(error_of([&] { rows(RotatedTensor::fused_grouped, 12); }) ==
        "[permute] tensor t has 12 rows but 4 heads of 4 channels need 16.");
}

TEST_CASE("permute: shards are written to a folder, each in its place") {
  const Scratch scratch;
  const std::vector<float> bias = {0, 1, 2, 3};
  std::filesystem::create_directory(scratch.path("in"));
  const std::vector<SafetensorsEntry<float>> first = {{"0.q_proj.bias", {4}, bias}}, second = {{"w", {4}, bias}};
  write_safetensors<float>(scratch.path("in/a.safetensors"), first, {{"format", "pt"}});
  write_safetensors<float>(scratch.path("in/b.safetensors"), second, {{"format", "pt"}});
  const std::string index = scratch.file(R"({"weight_map": {"0.q_proj.bias": "a.safetensors", "w": "b.safetensors"}})",
                                         "in/model.safetensors.index.json");
  const PermuteSizes sizes{.n_heads = 1, .n_kv_heads = 1, .head_dim = 4, .rotary_dim = 4};
  const auto there = [&](const std::string& from, const std::string& to) {
    return permute_file(from, to, RopeLayout::half, RopeLayout::interleaved, sizes);
  };
  CHECK(there(index, scratch.path("out")).size() == 1);
  const SafetensorsFile out(scratch.path("out"));
  CHECK(out.files() == std::vector<std::string>{scratch.path("out/a.safetensors"), scratch.path("out/b.safetensors")});
  CHECK(out.metadata().at("format") == "pt");
  std::vector<float> values(4);
  out.read<float>(*out.find("0.q_proj.bias"), values);
  CHECK(values == std::vector<float>{0, 2, 1, 3});
  CHECK(bytes_of(scratch.path("out/b.safetensors")) == bytes_of(scratch.path("in/b.safetensors")));
  permute_file(scratch.path("out/model.safetensors.index.json"), scratch.path("back"), RopeLayout::interleaved,
               RopeLayout::half, sizes);
  CHECK(bytes_of(scratch.path("back/a.safetensors")) == bytes_of(scratch.path("in/a.safetensors")));
  CHECK(error_of([&] { there(index, scratch.path("in")); }).find("are the same file.") != std::string::npos);
  CHECK(error_of([&] { there(index, scratch.path("out/a.safetensors")); }).find("is no folder") != std::string::npos);
}

TEST_CASE("permute: what cannot be done is said") {
  const Scratch scratch;
  const std::string half = golden_path("llama_tiny/rope_half/model.safetensors");
  const auto error = [&](const std::string& from, const std::string& to, PermuteSizes sizes) {
    return error_of([&] { permute_file(from, to, RopeLayout::half, RopeLayout::interleaved, sizes); });
  };
  CHECK(error(half, half, tiny) == "[permute] " + half + " and " + half + " are the same file.");
  PermuteSizes wrong = tiny;
  wrong.n_kv_heads = 4;
  CHECK(error(half, scratch.path("x"), wrong) ==
        "[permute] tensor model.layers.0.self_attn.k_proj.weight has 16 rows but 4 heads of 8 channels need 32.");
  for (std::int64_t PermuteSizes::*size :
       {&PermuteSizes::n_heads, &PermuteSizes::n_kv_heads, &PermuteSizes::head_dim}) {
    PermuteSizes odd = tiny;
    odd.*size = std::int64_t{1} << 40;
    CHECK(error(half, scratch.path("x"), odd).ends_with(" channels are too many."));
    odd.*size = 0;
    CHECK(error(half, scratch.path("x"), odd).ends_with(" must be above 0."));
  }
  CHECK(error_of([] { layout_rows(RopeLayout::half, RopeLayout::interleaved, INT64_MAX, INT64_MAX, 8); }) ==
        "[permute] 9223372036854775807 heads of 9223372036854775807 channels are too many.");
  const std::vector<float> v = {1};
  const std::vector<SafetensorsEntry<float>> none = {{"w", {1}, v}}, fused = {{"a.qkv_proj.weight", {1}, v}};
  write_safetensors<float>(scratch.path("none"), none, {});
  write_safetensors<float>(scratch.path("fused"), fused, {});
  CHECK(error(scratch.path("none"), scratch.path("x"), tiny) ==
        "[permute] " + scratch.path("none") + " has no query or key tensors.");
  CHECK(error(scratch.path("fused"), scratch.path("x"), tiny) ==
        "[permute] tensor a.qkv_proj.weight has 1 rows but 8 heads of 8 channels need 64.");
  const std::vector<float> bias(32);
  const std::vector<SafetensorsEntry<float>> packed = {{"a.q_proj.bias", {32}, bias}, {"a.q_proj.qweight", {1}, v}};
  write_safetensors<float>(scratch.path("packed"), packed, {});
  CHECK(error(scratch.path("packed"), scratch.path("x"), tiny) ==
        "[permute] tensor a.q_proj.qweight belongs to queries or keys but is no plain weight or bias, and is not "
        "permuted.");
  // A pipe in the target's place stays one.
  const std::string pipe = scratch.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(permute_file(half, pipe, RopeLayout::half, RopeLayout::interleaved, tiny),
                       ("cannot write " + pipe + ": it is there and is no regular file").c_str(), std::runtime_error);
  CHECK(std::filesystem::is_fifo(pipe));
}
