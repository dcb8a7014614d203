#include "poslab/formats/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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
    const SafetensorsTensor* tensor = file.find(entry["tensor"].get<std::string>());
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
        "tensor w: dtype F99 is not known; F64, F32, BF16, F16, I64, U64, I32, U32, I16, U16, I8, U8, BOOL, F8_E4M3, "
        "F8_E5M2 are.");
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
  CHECK(refused(scratch, file_bytes(R"({"w":{},"w":{}})", "")) == "the header is damaged: duplicate key 'w'.");
  CHECK(refused(scratch, file_bytes("not json", "")).starts_with("the header is damaged: not JSON"));
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})",
                                    "abcd")) == "tensor w: the numbers of its shape must be integers of 0 or more.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "abcd")) ==
        "tensor w: the numbers of its shape must be integers of 0 or more.");
  CHECK(refused(scratch, file_bytes(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}})", "abcd")) ==
        "tensor w: data_offsets 4 .. 0 run backwards.");
  CHECK(refused(scratch, file_bytes(R"({"w":1})", "")) == "tensor w: has no dtype.");
  CHECK(refused(scratch, file_bytes(R"({"__metadata__":{"a":1}})", "")) == "__metadata__.a must be text.");
  CHECK(refused(scratch, std::string(7, '\0') + "\x80") ==
        "a header of 9223372036854775808 bytes does not fit in a file "
        "of 8 (at most 67108864); it is truncated or not safetensors.");
  CHECK(refused(scratch, "") == "is empty (0 bytes).");
  const SafetensorsFile integers(
      scratch.file(file_bytes(R"({"w":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "abcd")));
  std::vector<float> out(1);
  CHECK_THROWS_AS(integers.read<float>(*integers.find("w"), out), std::invalid_argument);
}

TEST_CASE("other files and paths are refused by what they are") {
  const Scratch scratch;
  const auto error = [](const std::string& path) -> std::string {
    try {
      SafetensorsFile{path};
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refused(scratch, "PK\x03\x04 a zip").find("is not a safetensors file but a PyTorch pickle") == 0);
  CHECK(refused(scratch, "\x80\x02}q\x01(X").find("is not a safetensors file but a PyTorch pickle") == 0);
  CHECK(refused(scratch, "GGUF\x03") == "is not a safetensors file but a GGUF file.");
  const std::string link = scratch.path("link.safetensors"), folder = scratch.path("");
  std::filesystem::create_symlink("nowhere", link);
  CHECK(error(link) == "[read_safetensors] " + link + ": is a symlink to nowhere, which does not exist.");
  CHECK(error(folder) ==
        "[read_safetensors] " + folder + ": holds no model.safetensors and no model.safetensors.index.json.");
  scratch.file("PK", "pytorch_model.bin");
  CHECK(error(folder).find(": holds its weights only as a PyTorch pickle (pytorch_model.bin)") != std::string::npos);
}

TEST_CASE("a header whose length begins as a pickle does is still a header") {
  const Scratch scratch;
  const std::string header = "{}" + std::string(0x010280 - 2, ' ');
  CHECK(refused(scratch, file_bytes(header, "")).empty());
}

TEST_CASE("a file cut anywhere is refused") {
  const Scratch scratch;
  const std::string whole =
      file_bytes(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"I8","shape":[2],)"
                 R"("data_offsets":[4,6]}})",
                 "abcdef");
  CHECK(refused(scratch, whole).empty());
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK(!refused(scratch, whole.substr(0, size)).empty());
}

TEST_CASE("f32, f64, f16 and bf16 at odd addresses") {
  const Scratch scratch;
  const std::string header = R"({"o":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                             R"("s":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                             R"("d":{"dtype":"F64","shape":[1],"data_offsets":[5,13]},)"
                             R"("h":{"dtype":"F16","shape":[1],"data_offsets":[13,15]},)"
                             R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[15,17]}})";
  std::string data(17, '\0');
  const float s = 0.1F;
  const double d = 0.1;
  const std::uint16_t h = 0x3555, b = 0xc049;  // 0.333251953125, -3.140625
  std::memcpy(data.data() + 1, &s, 4);
  std::memcpy(data.data() + 5, &d, 8);
  std::memcpy(data.data() + 13, &h, 2);
  std::memcpy(data.data() + 15, &b, 2);
  const SafetensorsFile file(scratch.file(file_bytes(header, data)));
  const auto read = [&](const char* name) {
    std::vector<double> value(1);
    file.read<double>(*file.find(name), value);
    return value[0];
  };
  CHECK(read("s") == 0.1F);
  CHECK(read("d") == 0.1);
  CHECK(read("h") == 0.333251953125);
  CHECK(read("b") == -3.140625);
  std::vector<float> two(2);
  CHECK_THROWS_AS(file.read<float>(*file.find("s"), two), std::invalid_argument);
}

TEST_CASE("tensors written as they were read give the file that PyTorch's writer gave") {
  const std::string path = golden_path("llama_tiny/rope_half/model.safetensors");
  const SafetensorsFile file(path);
  std::vector<SafetensorsBytes> tensors;
  for (const auto& t : file.tensors()) tensors.push_back({t.name, t.dtype_word, t.shape, t.bytes});
  const Scratch scratch;
  write_safetensors(scratch.path("again"), tensors, file.metadata());
  const auto bytes = [](const std::string& at) {
    std::ifstream in(at, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  CHECK(bytes(scratch.path("again")) == bytes(path));
}

TEST_CASE("shards: one model from several files") {
  const Scratch scratch;
  const auto shard = [&](const std::string& tensor, const std::string& data, const std::string& file) {
    scratch.file(file_bytes(R"({")" + tensor + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", data), file);
  };
  const auto index = [&](const std::string& map) {
    return scratch.file(R"({"metadata":{"total_size":2},"weight_map":)" + map + "}", "model.safetensors.index.json");
  };
  const auto error = [](const std::string& path) -> std::string {
    try {
      SafetensorsFile{path};
    } catch (const std::invalid_argument& e) {
      const std::string text = e.what(), start = "[read_safetensors] " + path + ": ";
      return text.starts_with(start) ? text.substr(start.size()) : text;
    }
    return "";
  };
  shard("a", "x", "1.safetensors");
  shard("b", "y", "2.safetensors");
  const std::string path = index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  for (const std::string& way : {path, scratch.path("")}) {
    const SafetensorsFile file(way);
    REQUIRE(file.tensors().size() == 2);
    CHECK(static_cast<char>(file.find("a")->bytes[0]) == 'x');
    CHECK(static_cast<char>(file.find("b")->bytes[0]) == 'y');
    CHECK(file.path() == path);
  }
  index(R"({"a":"1.safetensors","b":"1.safetensors"})");
  CHECK(error(path) == "weight_map places tensor b in 1.safetensors, which has none.");
  index(R"({"a":"1.safetensors","c":"2.safetensors"})");
  CHECK(error(path) == "weight_map places no tensor b in 2.safetensors, which holds one.");
  index(R"({"a":"1.safetensors","b":"../2.safetensors"})");
  CHECK(error(path) == "weight_map: '../2.safetensors' is no plain file name.");
  index(R"({"a":"1.safetensors","b":7})");
  CHECK(error(path) == "weight_map: the file of b must be text.");
  index(R"({"a":"1.safetensors","b":"3.safetensors"})");
  CHECK(error(path).find("3.safetensors: cannot be read: No such file or directory.") != std::string::npos);
  index("[]");
  CHECK(error(path) == "has no object weight_map.");
  shard("a", "x", "2.safetensors");
  index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  CHECK(error(path).find("2.safetensors: tensor a stands in another shard too.") != std::string::npos);
}

TEST_CASE("a header may not reach past the file by a single byte") {
  const Scratch scratch;
  const std::string header = "{}      ";
  CHECK(refused(scratch, file_bytes(header, "")).empty());
  const auto sized = [](std::uint64_t size, std::size_t file_size) {
    std::string bytes(reinterpret_cast<const char*>(&size), 8);
    bytes += '{';
    bytes.resize(file_size, ' ');
    return bytes;
  };
  for (const auto& [header_size, file_size] : {std::pair{8, 10}, {4089, 4096}, {3, 10}, {9, 16}, {1, 8}}) {
    CAPTURE(header_size);
    const std::string error =
        refused(scratch, sized(static_cast<std::uint64_t>(header_size), static_cast<std::size_t>(file_size)));
    CHECK(error.find("does not fit") != std::string::npos);
  }
}
