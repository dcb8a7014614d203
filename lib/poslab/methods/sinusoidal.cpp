#include "poslab/methods/sinusoidal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "poslab/core/narrow.h"
#include "poslab/methods/list.h"
#include "poslab/rope/element_storage.h"

namespace poslab {
namespace {

struct Channel {
  double exponent;  // the angle is position / base^exponent
  bool cosine;
};

Channel channel(SinusoidalVariant variant, std::int64_t c, std::int64_t d_model) {
  const auto d = static_cast<double>(d_model);
  const std::int64_t sines = (d_model + 1) / 2;
  switch (variant) {
    case SinusoidalVariant::paper:
      return {static_cast<double>(2 * (c / 2)) / d, c % 2 == 1};
    case SinusoidalVariant::halves:
      return {static_cast<double>(2 * (c % sines)) / d, c >= sines};
    case SinusoidalVariant::tensor2tensor: {
      const std::int64_t pairs = std::max<std::int64_t>(d_model / 2, 1);
      const auto steps = static_cast<double>(std::max<std::int64_t>(pairs - 1, 1));
      return {static_cast<double>(c % pairs) / steps, c >= pairs};
    }
    case SinusoidalVariant::channel_exponent:
      return {static_cast<double>(c) / d, c % 2 == 1};
    case SinusoidalVariant::twice_channel_exponent:
      return {static_cast<double>(2 * c) / d, c % 2 == 1};
  }
  throw std::logic_error("[SinusoidalTable] unknown variant");
}

bool has_pairs(SinusoidalVariant variant, std::int64_t d_model) {
  switch (variant) {
    case SinusoidalVariant::paper:
    case SinusoidalVariant::halves:
      return d_model % 2 == 0;
    case SinusoidalVariant::tensor2tensor:
      return d_model >= 2;
    case SinusoidalVariant::channel_exponent:
    case SinusoidalVariant::twice_channel_exponent:
      return false;
  }
  return false;
}

// The bits of std::sin and std::cos; glibc reduces the angle once for both.
void sine_and_cosine(double angle, double& sine, double& cosine) {
#ifdef __GLIBC__
  ::sincos(angle, &sine, &cosine);
#else
  sine = std::sin(angle);
  cosine = std::cos(angle);
#endif
}

}  // namespace

std::string_view sinusoidal_formula(SinusoidalVariant variant) {
  switch (variant) {
    case SinusoidalVariant::paper:
      return "PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos(p / base^(2i/d))";
    case SinusoidalVariant::halves:
      return "PE(p, i) = sin(p / base^(2i/d)), PE(p, ceil(d/2) + i) = cos(p / base^(2i/d))";
    case SinusoidalVariant::tensor2tensor:
      return "PE(p, i) = sin(p / base^(i/(n-1))), PE(p, n + i) = cos(p / base^(i/(n-1))), n = floor(d/2)";
    case SinusoidalVariant::channel_exponent:
      return "PE(p, c) = sin(p / base^(c/d)) for even c, cos(p / base^(c/d)) for odd c (a common mistake: c should be "
             "the pair's even channel)";
    case SinusoidalVariant::twice_channel_exponent:
      return "PE(p, c) = sin(p / base^(2c/d)) for even c, cos(p / base^(2c/d)) for odd c (a common mistake: the "
             "channel is doubled)";
  }
  return {};
}

std::string_view sinusoidal_source(SinusoidalVariant variant) {
  switch (variant) {
    case SinusoidalVariant::paper:
      return "Vaswani et al. 2017, section 3.5";
    case SinusoidalVariant::halves:
      return "Marian and Pegasus in Hugging Face transformers";
    case SinusoidalVariant::tensor2tensor:
      return "get_timing_signal_1d of tensor2tensor, the paper's own code";
    case SinusoidalVariant::channel_exponent:
    case SinusoidalVariant::twice_channel_exponent:
      return "seen in many tutorials and repositories";
  }
  return {};
}

SinusoidalTable::SinusoidalTable(std::int64_t d_model, double base, SinusoidalVariant variant) {
  if (d_model < 1 || d_model > std::int64_t{1} << 24) {
    throw std::invalid_argument(fmt::format("[SinusoidalTable] d_model must be 1 .. 16777216 but got {}.", d_model));
  }
  if (!(base >= 1) || !std::isfinite(base)) {
    throw std::invalid_argument(fmt::format("[SinusoidalTable] base must be finite and at least 1 but got {}.", base));
  }
  const bool pairs = has_pairs(variant, d_model);
  for (std::int64_t c = 0; c < d_model; ++c) {
    const bool padding = variant == SinusoidalVariant::tensor2tensor && d_model % 2 == 1 && c == d_model - 1;
    const auto [exponent, cosine] = channel(variant, c, d_model);
    const double frequency = 1.0 / std::pow(base, exponent);
    frequencies_.push_back(padding ? 0.0 : frequency);
    cosines_.push_back(cosine && !padding);
    if (pairs && cosine && !padding) pair_frequencies_.push_back(frequency);
  }
  if (pairs && d_model % 2 == 0) waves_.emplace(pair_frequencies_);
}

void SinusoidalTable::fill(std::int64_t first_position, std::span<double> out) const {
  const std::size_t d = frequencies_.size();
  if (out.size() % d != 0) {
    throw std::invalid_argument(
        fmt::format("[SinusoidalTable::fill] {} values are no whole rows of {} channels.", out.size(), d));
  }
  for (std::size_t row = 0; row < out.size() / d; ++row) {
    const auto position = static_cast<double>(first_position + static_cast<std::int64_t>(row));
    for (std::size_t c = 0; c < d; ++c) {
      const double angle = position * frequencies_[c];
      double* to = out.data() + row * d + c;
      if (c + 1 < d && !cosines_[c] && cosines_[c + 1] && frequencies_[c + 1] == frequencies_[c]) {
        sine_and_cosine(angle, to[0], to[1]);
        ++c;
      } else {
        *to = cosines_[c] ? std::cos(angle) : std::sin(angle);
      }
    }
  }
}

void SinusoidalTable::fill_narrowed(std::int64_t first_position, std::int64_t count, DType dtype, std::byte* out,
                                    bool stream) const {
  const std::size_t d = frequencies_.size();
  if (!waves_ || dtype == DType::f64) {
    std::vector<double> row(d);
    for (std::int64_t i = 0; i < count; ++i, out += d * bytes_per_element(dtype)) {
      fill(first_position + i, row);
      narrow_to_bytes(dtype, row, out);
    }
    return;
  }
  const bool interleaved = cosines_[1] != 0 && d > 2;
  WaveTarget target;
  target.type = storage_of(dtype);
  target.layout = interleaved ? WaveLayout::interleaved : WaveLayout::separate;
  target.sines = out;
  target.cosines = out + d / 2 * bytes_per_element(dtype);
  target.stride = d;
  target.stream = stream;
  waves_->fill(first_position, count, target);
}

namespace {

VectorTable waves(const TableRequest& request, SinusoidalVariant variant) {
  const MethodModel& model = request.model;
  const auto rows = std::make_shared<const SinusoidalTable>(model.d_model, model.params.base, variant);
  VectorTable table;
  table.name = to_word(variant);
  table.formula = sinusoidal_formula(variant);
  table.source = sinusoidal_source(variant);
  table.frequencies = rows->frequencies();
  table.pair_frequencies = rows->pair_frequencies();
  table.columns = model.d_model;
  table.fill = [rows](std::int64_t first, std::span<double> out) { rows->fill(first, out); };
  table.fill_narrowed = [rows](std::int64_t first, std::int64_t count, DType dtype, std::byte* out) {
    rows->fill_narrowed(first, count, dtype, out);
  };
  if (model.d_model % 2 == 1) {
    table.note = variant == SinusoidalVariant::tensor2tensor ? " d_model is odd: the last number is 0."
                                                             : " d_model is odd: there is one sine more than cosines.";
  }
  return table;
}

class Sinusoidal final : public Method {
 public:
  std::string_view word() const override { return "sinusoidal"; }
  std::string_view sentence() const override {
    return "adds sines and cosines of the position to sqrt(d_model) times the token's vector";
  }
  std::string_view source() const override { return "Vaswani et al. 2017, arXiv:1706.03762, section 3.5"; }
  std::string_view used_by() const override { return "the original transformer, Marian, Pegasus, XGLM, M2M-100"; }
  std::vector<Place> places() const override { return {Place::input}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<SinusoidalParams>(); }
  void check(const MethodModel& model) const override {
    SinusoidalTable(1, model.params.base, model.params.variant);  // or throws
  }
  std::unique_ptr<const InputVectors> input(const MethodModel& model, std::vector<double>) const override {
    return std::make_unique<SinusoidalTable>(model.d_model, model.params.base, model.params.variant);
  }
  std::string input_formula(const MethodParams& params) const override {
    return fmt::format("PE(p), {}", sinusoidal_formula(params.variant));
  }
  double token_scale(const MethodModel& model) const override { return std::sqrt(static_cast<double>(model.d_model)); }
  MethodTable table(const TableRequest& request) const override {
    const SinusoidalVariant asked = request.model.params.variant;
    MethodTable out;
    out.vectors.push_back(waves(request, asked));
    for (const auto& entry : poslab::words(asked)) {
      if (request.all_variants && entry.first != asked) out.vectors.push_back(waves(request, entry.first));
    }
    return out;
  }
};

}  // namespace

const Method& sinusoidal_method() {
  static const Sinusoidal method;
  return method;
}

}  // namespace poslab
