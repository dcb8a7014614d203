#include "poslab/methods/xpos.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "poslab/methods/list.h"

namespace poslab {

std::vector<double> xpos_decay(std::int64_t rotary_dim, double distance, double gamma, double scale_base) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0 || !(gamma > 0) || !(scale_base > 0)) {
    throw std::invalid_argument(
        fmt::format("[xpos_decay] rotary_dim must be even and gamma and scale_base above 0 but they are {}, {}, {}.",
                    rotary_dim, gamma, scale_base));
  }
  std::vector<double> decay(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < decay.size(); ++i) {
    const double zeta = (2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim) + gamma) / (1 + gamma);
    decay[i] = std::pow(zeta, distance / scale_base);
  }
  return decay;
}

namespace {

class Xpos final : public Method {
 public:
  std::string_view word() const override { return "xpos"; }
  std::string_view sentence() const override {
    return "rotates queries and keys as RoPE does, and multiplies each pair's part of a score by "
           "zeta_i^(distance / xpos_scale_base), zeta_i = (2i / rotary_dim + xpos_gamma) / (1 + xpos_gamma)";
  }
  std::string_view source() const override { return "Sun et al. 2022, arXiv:2212.10554, and torchscale"; }
  std::string_view used_by() const override { return "RetNet, torchscale"; }
  std::vector<Place> places() const override { return {Place::rotation}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<XposParams>(); }
  void check(const MethodModel& model) const override {
    xpos_decay(2, 0, model.params.xpos_gamma, model.params.xpos_scale_base);  // or throws
  }
  PairGrowth growth(const MethodModel& model, std::int64_t n_pairs) const override {
    return [n_pairs, gamma = model.params.xpos_gamma, base = model.params.xpos_scale_base](double position) {
      return xpos_decay(2 * n_pairs, position, gamma, base);
    };
  }
  MethodTable table(const TableRequest& request) const override {
    const auto n_pairs = std::ssize(request.inv_freq);
    DistanceTable table;
    table.formula = sentence();
    table.source = source();
    table.title = "decay by distance, the first pairs";
    table.by_pair = true;
    table.rows = n_pairs;
    table.at = [decay = growth(request.model, n_pairs)](std::int64_t pair, std::int64_t distance) {
      return decay(static_cast<double>(distance))[static_cast<std::size_t>(pair)];
    };
    table.conclusion = fmt::format(
        "xPos rotates as RoPE does; beside that, at distance {} the fastest of {} pairs keeps {:.6g} of its "
        "part of a score and the slowest {:.6g}.\n",
        request.rows - 1, n_pairs, table.at(0, request.rows - 1), table.at(n_pairs - 1, request.rows - 1));
    MethodTable out;
    out.by_distance = std::move(table);
    return out;
  }
};

}  // namespace

const Method& xpos_method() {
  static const Xpos method;
  return method;
}

}  // namespace poslab
