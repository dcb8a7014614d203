#include "poslab/formats/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "golden.h"
#include "scratch.h"

using namespace poslab;

namespace {

std::string file_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

std::string refused(const Scratch& scratch, const std::string& bytes) {
  const std::string path = scratch.file(bytes, "a.safetensors");
  try {
    SafetensorsFile{path};
  } catch (const std::invalid_argument& e) {
    const std::string message = e.what();
    const std::string start = "[read_safetensors] " + path + ": ";
    return message.starts_with(start) ? message.substr(start.size()) : message;
  }
  return "";
}

}  // namespace

TEST_CASE("bf16 entries are widened exactly") {
  const auto json = golden("llama_tiny/llama_tiny_rope_half_bf16.json");
  const SafetensorsFile file(golden_path("llama_tiny/rope_half_bf16/model.safetensors"));
  for (const auto& entry : json["expected_entries"]) {
    const SafetensorsTensor* tensor = file.find(entry["tensor"]);
    REQUIRE(tensor);
    CHECK(tensor->dtype_word == "BF16");
    std::vector<float> values(static_cast<std::size_t>(tensor->size));
    file.read<float>(*tensor, values);
    CHECK(values[entry["flat_index"].get<std::size_t>()] == entry["expected_f32"].get<float>());
  }
}

TEST_CASE("what is written is read again") {
  const Scratch scratch;
  const std::vector<double> a = {1, -0.0, 1e300, std::numeric_limits<double>::infinity()}, b = {0.1};
  const std::vector<SafetensorsEntry<double>> entries = {{"z", {2, 2}, a}, {"a", {}, b}, {"none", {0, 3}, {}}};
  const std::string path = scratch.path("x.safetensors");
  write_safetensors<double>(path, entries, {{"steps", "12"}});
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.metadata().at("steps") == "12");
  CHECK(file.find("nothing") == nullptr);
  CHECK(file.find("none")->shape == std::vector<std::int64_t>{0, 3});
  std::vector<double> values(4), one(1);
  file.read<double>(*file.find("z"), values);
  file.read<double>(*file.find("a"), one);
  CHECK(std::memcmp(values.data(), a.data(), sizeof(double) * 4) == 0);
  CHECK(one == b);
  CHECK_THROWS_AS(write_safetensors<double>(scratch.path("no/x.safetensors"), entries, {}), std::runtime_error);
}

TEST_CASE("a damaged file is refused, naming the tensor") {
  const Scratch scratch;
  const std::string ok = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  CHECK(refused(scratch, file_bytes(ok, "abcd")).empty());
  CHECK(refused(scratch, file_bytes(ok, "abc")) == "tensor w: its bytes end at 4 but the file has 3: it is truncated.");
  CHECK(refused(scratch, file_bytes(ok, "abcde")) == "1 bytes after the last tensor belong to none.");
  CHECK(refused(scratch, "abc") == "has 3 bytes, too few for safetensors.");
  CHECK(refused(scratch, std::string(8, '\xff')).find("does not fit in a file of 8") != std::string::npos);
  CHECK(refused(scratch, file_bytes("[]", "")) == "the header is no JSON object.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[1]}})", "")) == "tensor w: has no data_offsets.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "abcd")) ==
        "tensor w: dtype F99 is not known.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd")) ==
        "tensor w: the numbers of its shape must be integers of 0 or more.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd")) ==
        "tensor w: its shape needs 8 bytes but data_offsets give 4.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}})",
                                    "abcd")) == "tensor w: its shape overflows.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcdefgh")) ==
        "4 bytes before tensor w belong to none.");
  CHECK(refused(scratch, file_bytes(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                    R"("w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                                    "abcdef")) == "tensor w overlaps the one before it.");
  CHECK(refused(scratch, file_bytes(R"({"w":{},"w":{}})", "")).find("duplicate key 'w'") != std::string::npos);
  const SafetensorsFile integers(
      scratch.file(file_bytes(R"({"w":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "abcd")));
  std::vector<float> out(1);
  CHECK_THROWS_AS(integers.read<float>(*integers.find("w"), out), std::invalid_argument);
}
