#include "poslab/model_configs/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "poslab/core/printable.h"

namespace poslab {

GgufKeys::GgufKeys(const GgufFile& file) : file_(file) {
  const auto name = file_.text("general.architecture");
  if (!name) fail("has no general.architecture");
  family_ = find_gguf_family(*name);
  if (!family_) {
    fail(fmt::format("the architecture {} is not known; {} are", printable(*name), known_gguf_architectures()));
  }
}

void GgufKeys::fail(const std::string& what) const {
  throw std::invalid_argument(fmt::format("[gguf_config] {}: {}.", file_.path(), what));
}

std::optional<std::int64_t> GgufKeys::size(std::string_view end) const {
  const auto* value = file_.find_value(key(end));
  if (value && value->type == GgufType::array) return uniform(end);
  const auto v = file_.integer(key(end));
  if (v && *v < 1) fail(fmt::format("{} must be above 0 but is {}", key(end), *v));
  if (v && *v > most_size) fail(fmt::format("{} is {}, too large", key(end), *v));
  return v;
}

std::optional<std::int64_t> GgufKeys::uniform(std::string_view end) const {
  const auto values = file_.numbers(key(end));
  if (values.empty() || std::any_of(values.begin(), values.end(), [&](double v) { return v != values.front(); })) {
    fail(fmt::format("{} differs from layer to layer, which is not supported", key(end)));
  }
  if (!(values.front() >= 1 && values.front() <= most_size))
    fail(fmt::format("{} must be above 0 but is {}", key(end), values.front()));
  return static_cast<std::int64_t>(values.front());
}

std::optional<double> GgufKeys::positive(std::string_view end) const {
  const auto v = file_.number(key(end));
  if (v && !(*v > 0 && std::isfinite(*v))) fail(fmt::format("{} must be above 0 but is {}", key(end), *v));
  return v;
}

std::int64_t GgufKeys::required(std::optional<std::int64_t> value, std::string_view end) const {
  if (!value) fail(fmt::format("has no {}", key(end)));
  return *value;
}

GgufWindow::GgufWindow(const GgufKeys& keys) : keys_(keys) {
  const SlidingLayers& sliding = keys_.architecture().sliding;
  if (sliding.period == 0) return;
  const auto window = given();
  if (window == 0) return;
  if (sliding.chunked) {
    tokens_ = sliding.window;
  } else if (window) {
    tokens_ = window;
  } else if (sliding.window > 0) {
    tokens_ = sliding.window;
  } else if (!sliding.optional) {
    keys_.fail(fmt::format("has no {}", keys_.key("attention.sliding_window")));
  }
}

std::optional<std::int64_t> GgufWindow::given() const {
  const auto v = keys_.file().integer(keys_.key("attention.sliding_window"));
  if (v && *v < 0) {
    keys_.fail(fmt::format("{} must be 0 or more but is {}", keys_.key("attention.sliding_window"), *v));
  }
  return v;
}

std::vector<bool> GgufWindow::listed_layers() const {
  const GgufValue* value = keys_.file().find_value(pattern_key());
  if (!value || value->type != GgufType::array) return {};
  const auto& array = std::get<GgufArray>(value->value);
  const std::int64_t layers = keys_.required(keys_.size("block_count"), "block_count");
  if (array.size != layers) keys_.fail(fmt::format("{} lists {} layers of {}", pattern_key(), array.size, layers));
  std::vector<bool> out;
  if (array.element == GgufType::boolean) {
    for (std::byte b : array.bytes) out.push_back(b != std::byte{0});
  } else {
    for (double v : keys_.file().numbers(pattern_key())) out.push_back(v != 0);
  }
  return out;
}

std::int64_t GgufWindow::period() const {
  const std::int64_t period = keys_.file().integer(pattern_key()).value_or(keys_.architecture().sliding.period);
  if (period < 0) keys_.fail(fmt::format("{} must be 0 or more but is {}", pattern_key(), period));
  return period;
}

}  // namespace poslab
