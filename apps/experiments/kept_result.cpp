#include "experiments/kept_result.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "poslab/core/file_write.h"
#include "poslab/core/fnv.h"
#include "poslab/formats/json_file.h"
#include "poslab/report/document.h"

namespace poslab {
namespace {

namespace fs = std::filesystem;

std::string file_in(const std::string& folder, const std::string& name,
                    const std::map<std::string, std::string>& made_with) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw std::runtime_error(fmt::format("cannot write {}: {}", folder, error.message()));
  Fnv1a hash;
  for (const auto& [key, value] : made_with) {
    for (char c : key + "=" + value + "\n") hash.add(static_cast<unsigned char>(c));
  }
  return (fs::path(folder) / fmt::format("{}-{:016x}.json", name, hash.value())).string();
}

}  // namespace

KeptResult::KeptResult(const std::string& folder, const std::string& name, std::map<std::string, std::string> made_with)
    : made_with_(std::move(made_with)), path_(file_in(folder, name, made_with_)), lock_(path_) {}

std::optional<std::vector<double>> KeptResult::find(std::size_t size) const {
  if (!fs::exists(path_)) return std::nullopt;
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("[study] {} {}; remove it.", path_, what));
  };
  const nlohmann::json kept = read_json_file(path_);
  if (!kept.is_object() || !kept.contains("made_with") || !kept["made_with"].is_object() || !kept.contains("numbers") ||
      !kept["numbers"].is_array()) {
    refuse("holds no results of a study");
  }
  for (const auto& [key, value] : made_with_) {
    const auto found = kept["made_with"].find(key);
    const std::string had = found == kept["made_with"].end() ? "nothing"
                            : found->is_string()             ? found->get<std::string>()
                                                             : found->dump();
    if (had != value) refuse(fmt::format("was made with {} {}, not {}", key, had, value));
  }
  const nlohmann::json& list = kept["numbers"];
  if (list.size() != size) refuse(fmt::format("holds {} numbers, not {}", list.size(), size));
  std::vector<double> numbers;
  for (const nlohmann::json& number : list) {
    if (!number.is_number() && !number.is_null()) refuse("holds something else than numbers");
    numbers.push_back(number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>());
  }
  return numbers;
}

void KeptResult::keep(std::span<const double> numbers) const {
  std::string text = "{\"made_with\": {";
  for (const auto& [key, value] : made_with_) {
    if (!text.ends_with('{')) text += ", ";
    append_json_string(text, key);
    text += ": ";
    append_json_string(text, value);
  }
  text += "},\n\"numbers\": [";
  for (double number : numbers) {
    if (!text.ends_with('[')) text += ", ";
    append_number(text, number);
  }
  text += "]}\n";
  const std::array parts = {std::as_bytes(std::span(text))};
  write_file(path_, parts);
}

}  // namespace poslab
