#include "poslab/model_configs/rope_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace poslab {

nlohmann::ordered_json rope_keys(const RopeScaling& s, RopeKeys which) {
  const RopeType type = s.rope_type;
  nlohmann::ordered_json values;  // every value of the field list, by name
  const RopeScaling granted;
  const auto collect = [&](std::string_view name, auto, auto, const auto& value, const auto& usual) {
    using T = std::decay_t<decltype(value)>;
    if (which == RopeKeys::needed && value == usual && std::ranges::count(type->config.optional, name) > 0) return;
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (value) values[std::string(name)] = *value;
    } else if constexpr (Word<T>) {
      values[std::string(name)] = to_word(value);
    } else {
      values[std::string(name)] = value;
    }
  };
  RopeScaling::each({}, collect, s, granted);
  if (s.original_max_position_embeddings) {
    values["original_max_position_embeddings"] = static_cast<std::int64_t>(*s.original_max_position_embeddings);
  }
  if (s.truncate) values.erase("truncate");  // absent means true everywhere

  nlohmann::ordered_json out = {{"rope_type", type.word()}};
  const auto put = [&](std::string_view key) {
    const std::string name(key);
    if (values.contains(name)) out[name] = values[name];
  };
  put("factor");
  if (which == RopeKeys::all || type->has_key("original_max_position_embeddings")) {
    put("original_max_position_embeddings");
  }
  for (const auto* keys : {&type->config.required, &type->config.optional}) {
    for (const std::string_view key : *keys) put(key);
  }
  if (type->spreads_over_head) out["partial_rotary_factor"] = s.partial_rotary_factor;
  return out;
}

}  // namespace poslab
