#include "poslab/methods/rope.h"

#include <cmath>
#include <utility>

#include "poslab/methods/method.h"

namespace poslab {
namespace {

VectorTable angles(const TableRequest& request, RopeLayout layout) {
  VectorTable table;
  table.name = to_word(layout);
  table.formula =
      layout == RopeLayout::interleaved
          ? "values 2i, 2i+1 = cos, sin of p * rope_theta^(-2i/rotary_dim): pair i starts as (1, 0) and turns"
          : "values i, rotary_dim/2 + i = cos, sin of p * rope_theta^(-2i/rotary_dim): pair i starts as (1, 0) "
            "and turns";
  table.source = "Su et al. 2021 (RoFormer), equations 15 and 34";
  table.columns = 2 * std::ssize(request.inv_freq);
  table.frequencies = table.pair_frequencies = request.inv_freq;
  table.fill = [inv_freq = request.inv_freq, layout](std::int64_t first, std::span<double> out) {
    const std::size_t width = 2 * inv_freq.size();
    for (std::size_t row = 0; row < out.size() / width; ++row) {
      const auto position = static_cast<double>(first + static_cast<std::int64_t>(row));
      const std::span<double> values = out.subspan(row * width, width);
      for (std::size_t i = 0; i < inv_freq.size(); ++i) {
        const auto pair = rope_pair_channels(layout, static_cast<std::int64_t>(width), static_cast<std::int64_t>(i));
        values[static_cast<std::size_t>(pair.first)] = std::cos(position * inv_freq[i]);
        values[static_cast<std::size_t>(pair.second)] = std::sin(position * inv_freq[i]);
      }
    }
  };
  return table;
}

class Rope final : public Method {
 public:
  std::string_view word() const override { return "rope"; }
  std::string_view sentence() const override {
    return "rotates each pair of channels of queries and keys by position times a frequency";
  }
  std::string_view source() const override { return "Su et al. 2021, arXiv:2104.09864, equations 15 and 34"; }
  std::string_view used_by() const override { return "Llama, Mistral, Qwen, Gemma, GPT-NeoX, Phi"; }
  std::vector<Place> places() const override { return {Place::rotation}; }
  bool is_plain_rotation() const override { return true; }
  bool fits_llama_config(const MethodParams&) const override { return true; }
  MethodTable table(const TableRequest& request) const override {
    MethodTable out;
    out.vectors.push_back(angles(request, request.layout));
    for (const auto& entry : poslab::words(request.layout)) {
      if (request.all_variants && entry.first != request.layout) out.vectors.push_back(angles(request, entry.first));
    }
    return out;
  }
};

}  // namespace

const Method& rope_method() {
  static const Rope method;
  return method;
}

}  // namespace poslab
