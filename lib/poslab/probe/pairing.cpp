#include "poslab/probe/pairing.h"

#include <cmath>
#include <utility>

namespace poslab {

PairMap pair_map(PairForm form, std::complex<double> first, std::complex<double> second) {
  const double ca = first.real(), sa = first.imag(), cb = second.real(), sb = second.imag();
  switch (form) {
    case PairForm::rotation:
      return {ca, -sa, sb, cb};
    case PairForm::swapped:
      return {sa, -ca, cb, sb};
    case PairForm::minus_missing:
      return {ca, sa, sb, cb};
    case PairForm::second_minus:
      return {ca, -sa, -sb, cb};
    case PairForm::first_overwritten:
      return {ca, -sa, ca * sb, cb - sa * sb};
    case PairForm::second_overwritten:
      return {ca - sa * sb, -cb * sa, sb, cb};
  }
  return {};
}

std::pair<std::int64_t, std::int64_t> Pairing::columns(std::int64_t pair) const {
  if (own_table()) return {pair, pair};
  const PairChannels c = rope_pair_channels(read, rotary_dim, pair);
  const auto column = [&](std::int64_t channel) {
    return table == RopeLayout::interleaved ? channel / 2 : channel % n_pairs();
  };
  return {column(c.first), column(c.second)};
}

Pairing::Solved Pairing::solve(double xa, double xb, double ya, double yb) const {
  // [ya, yb] = [[p, q], [r, s]] [cos, sin]
  double p = xa, q = -xb, r = xb, s = xa;
  switch (form) {
    case PairForm::rotation:
      break;
    case PairForm::swapped:
      p = -xb, q = xa, r = xa, s = xb;
      break;
    case PairForm::minus_missing:
      q = xb;
      break;
    case PairForm::second_minus:
      s = -xa;
      break;
    case PairForm::first_overwritten:
      s = ya;
      break;
    case PairForm::second_overwritten:
      q = -yb;
      break;
  }
  const double size = xa * xa + xb * xb, determinant = p * s - q * r;
  if (size == 0 || determinant == 0) return {};
  return {{(ya * s - q * yb) / determinant, (p * yb - ya * r) / determinant}, std::abs(determinant) / size};
}

Pairing plain_pairing(RopeLayout layout, std::int64_t rotary_dim) {
  Pairing p;
  p.read = p.write = p.table = layout;
  p.rotary_dim = rotary_dim;
  return p;
}

std::vector<Pairing> known_pairings(const Pairing& meant, std::int64_t head_dim) {
  const RopeLayout other = meant.read == RopeLayout::half ? RopeLayout::interleaved : RopeLayout::half;
  std::vector<Pairing> all = {meant};
  const auto add = [&](std::string mistake, auto&& change) {
    Pairing p = meant;
    change(p);
    p.mistake = std::move(mistake);
    all.push_back(std::move(p));
  };
  add("pairing swapped", [&](Pairing& p) { p.read = p.write = p.table = other; });
  add("sin and cos swapped", [](Pairing& p) { p.form = PairForm::swapped; });
  add("minus missing in rotate_half", [](Pairing& p) { p.form = PairForm::minus_missing; });
  add("sign wrong in one half", [](Pairing& p) { p.form = PairForm::second_minus; });
  add("first half overwritten", [](Pairing& p) { p.form = PairForm::first_overwritten; });
  add("second half overwritten", [](Pairing& p) { p.form = PairForm::second_overwritten; });
  add("table of the other layout", [&](Pairing& p) { p.table = other; });
  add("written in the other layout", [&](Pairing& p) { p.write = other; });
  add("read in the other layout", [&](Pairing& p) { p.read = p.table = other; });
  const std::int64_t last = head_dim - meant.rotary_dim;
  if (meant.first_channel != last) {
    add("last channels rotated", [&](Pairing& p) { p.first_channel = last; });
  }
  if (meant.first_channel != 0) {
    add("first channels rotated", [](Pairing& p) { p.first_channel = 0; });
  }
  return all;
}

}  // namespace poslab
