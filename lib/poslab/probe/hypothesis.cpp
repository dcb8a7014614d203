#include "poslab/probe/hypothesis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "poslab/rope/hf_f32.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"

namespace poslab {
namespace {

using Kind = NamedMistake::Kind;

// In poslab's f32 pipelines the frequencies come as Hugging Face computes them, not narrowed at the end.
ProfiledRope profiled_rope(const RopeHypothesis& h) {
  const NumericProfile profile = numeric_profile(h.profile);
  const bool plain = !h.scaling.rope_type.is_scaled() && !h.bent;
  if (profile.frequency == FrequencyMethod::running_product && plain) {
    return {profile, h.rotary_dim(), h.scaling.rope_theta};
  }
  if (profile.frequency == FrequencyMethod::f32 && !h.bent) {
    const std::vector<float> narrow = rope_inv_freq_hf_f32(h.scaling, h.seq_len);
    return {profile, std::vector<double>(narrow.begin(), narrow.end())};
  }
  return {profile, h.frequencies.inv_freq};
}

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

bool is_attention_factor(const RopeHypothesis& meant, const ScalingMistake& m) {
  return m.frequencies.inv_freq == meant.frequencies.inv_freq;
}

// Collects the mistakes that change something.
class Mistakes {
 public:
  explicit Mistakes(const RopeHypothesis& meant) : meant_(meant) {}

  void add(Kind kind, std::string name, const std::function<void(RopeHypothesis&)>& slip, std::string detail = {}) {
    RopeHypothesis h = meant_;
    slip(h);
    h.mistakes = {std::move(name)};
    h.detail = std::move(detail);
    list_.push_back({kind, std::move(h)});
  }

  void add_scaling(std::string name, const std::function<void(RopeScaling&)>& slip, std::string detail = {}) {
    RopeScaling scaling = meant_.scaling;
    slip(scaling);
    RopeHypothesis h = meant_;
    try {
      set_scaling(h, scaling);
    } catch (const std::invalid_argument&) {
      return;  // the slip needs a parameter that this scaling does not have
    }
    // Which attention factor an engine takes is a mistake of its own.
    if (scaling.rope_type == meant_.scaling.rope_type) {
      h.frequencies.attention_factor = meant_.frequencies.attention_factor;
    }
    if (same_frequencies(h.frequencies, meant_.frequencies)) return;
    h.mistakes = {std::move(name)};
    h.detail = std::move(detail);
    list_.push_back({Kind::frequency, std::move(h)});
  }

  void add_bent(std::string name, const std::function<void(std::vector<double>&)>& slip) {
    RopeHypothesis h = meant_;
    try {
      slip(h.frequencies.inv_freq);
    } catch (const std::invalid_argument&) {
      return;
    }
    h.bent = true;
    if (same_frequencies(h.frequencies, meant_.frequencies)) return;
    h.mistakes = {std::move(name)};
    list_.push_back({Kind::frequency, std::move(h)});
  }

  void add_of_scaling(const ScalingMistake& m) {
    RopeHypothesis h = meant_;
    h.frequencies = m.frequencies;
    if (m.scaling) h.scaling = *m.scaling;
    h.bent = !m.scaling;
    h.mistakes = {m.word};
    h.detail = m.detail;
    list_.push_back({Kind::frequency, std::move(h)});
  }

  void add_attention_factor(std::string name, double value) {
    if (same(value, meant_.frequencies.attention_factor)) return;
    for (const NamedMistake& m : list_) {
      if (m.kind == Kind::attention_factor && same(m.hypothesis.frequencies.attention_factor, value)) return;
    }
    add(
        Kind::attention_factor, std::move(name), [&](RopeHypothesis& h) { h.frequencies.attention_factor = value; },
        fmt::format("{:.7g} instead of {:.7g}", value, meant_.frequencies.attention_factor));
  }

  std::vector<NamedMistake> take() { return std::move(list_); }

 private:
  const RopeHypothesis& meant_;
  std::vector<NamedMistake> list_;
};

void add_attention_factors(const RopeHypothesis& meant, const std::vector<ScalingMistake>& of_scaling,
                           Mistakes& mistakes) {
  const double factor = meant.frequencies.attention_factor;
  mistakes.add_attention_factor("attention factor squared", factor * factor);
  mistakes.add_attention_factor("attention factor dropped", 1);
  for (const ScalingMistake& m : of_scaling) {
    if (is_attention_factor(meant, m)) mistakes.add_attention_factor(m.word, m.frequencies.attention_factor);
  }
}

void add_lengths(const RopeHypothesis& meant, Mistakes& mistakes) {
  const RopeScaling& s = meant.scaling;
  const double original = original_length(s);
  std::vector<double> lengths;
  if (s.max_position_embeddings) lengths.push_back(*s.max_position_embeddings);
  if (s.factor) {
    lengths.push_back(original * *s.factor);
    lengths.push_back(original / *s.factor);
  }
  for (double length = 512; length <= 0x1p21; length *= 2) lengths.push_back(length);
  std::vector<double> seen = {original};
  for (double length : lengths) {
    if (std::any_of(seen.begin(), seen.end(), [&](double l) { return same(l, length); })) continue;
    seen.push_back(length);
    mistakes.add_scaling(
        "original length wrong", [&](RopeScaling& c) { c.original_max_position_embeddings = length; },
        fmt::format("{} instead of {}", length, original));
  }
  if (s.factor && s.max_position_embeddings && !same(*s.max_position_embeddings / original, *s.factor)) {
    mistakes.add_scaling(
        "factor taken from the lengths", [&](RopeScaling& c) { c.factor = *s.max_position_embeddings / original; },
        fmt::format("{} instead of {}", *s.max_position_embeddings / original, *s.factor));
  }
}

void add_frequencies(const RopeHypothesis& meant, std::int64_t head_dim, const std::vector<ScalingMistake>& of_scaling,
                     Mistakes& mistakes) {
  const RopeScaling& s = meant.scaling;
  if (meant.rotary_dim() < head_dim) {
    mistakes.add_bent("frequencies from head_dim", [&](std::vector<double>& inv_freq) {
      RopeScaling wide = s;
      wide.rotary_dim = head_dim;
      const auto all = rope_frequencies(wide, meant.seq_len).inv_freq;
      std::copy_n(all.begin(), inv_freq.size(), inv_freq.begin());
    });
    mistakes.add_scaling("partial rotation ignored", [&](RopeScaling& c) { c.rotary_dim = head_dim; });
  }
  mistakes.add_scaling(
      "base default used", [](RopeScaling& c) { c.rope_theta = 10000; },
      fmt::format("10000 instead of {}", s.rope_theta));
  mistakes.add_scaling("exponent without the 2", [](RopeScaling& c) { c.rope_theta = std::sqrt(c.rope_theta); });
  mistakes.add_bent("pairs reversed",
                    [](std::vector<double>& inv_freq) { std::reverse(inv_freq.begin(), inv_freq.end()); });
  for (const ScalingMistake& m : of_scaling) {
    if (!is_attention_factor(meant, m)) mistakes.add_of_scaling(m);
  }
  if (s.rope_type->needs_original_length && s.rope_type->uses_factor &&
      s.rope_type->follows_length != FollowsLength::beyond_original &&
      (s.original_max_position_embeddings || s.max_position_embeddings)) {
    add_lengths(meant, mistakes);
  }
}

}  // namespace

std::string RopeHypothesis::mistake() const { return fmt::format("{}", fmt::join(mistakes, " and ")); }

void set_scaling(RopeHypothesis& hypothesis, const RopeScaling& scaling) {
  hypothesis.frequencies = rope_frequencies(scaling, hypothesis.seq_len);
  hypothesis.scaling = scaling;
  hypothesis.bent = false;
}

RopeTurns::RopeTurns(const RopeHypothesis& h)
    : rope_(profiled_rope(h)),
      attention_factor_(h.frequencies.attention_factor),
      scale_(h.position_scale),
      offset_(h.position_offset),
      sign_(h.sign) {}

double RopeTurns::angle(double position, std::int64_t pair) const {
  return sign_ * rope_.angle(scale_ * position + offset_, pair);
}

std::complex<double> RopeTurns::operator()(double position, std::int64_t pair) const {
  const double angle = this->angle(position, pair);
  const NumericProfile& profile = rope_.profile();
  if (profile.table == DType::f64) return std::polar(attention_factor_, angle);
  // Engines multiply by the attention factor before they store.
  return {round_to(profile.table, attention_factor_ * round_to(profile.trig, std::cos(angle))),
          round_to(profile.table, attention_factor_ * round_to(profile.trig, std::sin(angle)))};
}

std::vector<NamedMistake> named_mistakes(const RopeHypothesis& meant, std::int64_t head_dim,
                                         const std::vector<std::pair<std::string, RopeScaling>>& others) {
  Mistakes mistakes(meant);
  mistakes.add(Kind::pairing, "pairing swapped", [](RopeHypothesis& h) {
    h.layout = h.layout == RopeLayout::half ? RopeLayout::interleaved : RopeLayout::half;
  });
  mistakes.add(Kind::position, "not rotated", [](RopeHypothesis& h) { h.position_scale = 0; });
  mistakes.add(Kind::position, "negative angle", [](RopeHypothesis& h) { h.sign = -h.sign; });
  mistakes.add(Kind::position, "positions doubled", [](RopeHypothesis& h) { h.position_scale *= 2; });
  for (double degree : {std::numbers::pi / 180, 180 / std::numbers::pi}) {
    mistakes.add(Kind::position, "degrees used as radians", [&](RopeHypothesis& h) {
      h.position_scale *= degree;
      h.position_offset *= degree;
    });
  }
  mistakes.add(Kind::position, "rotated twice", [](RopeHypothesis& h) {
    h.position_scale *= 2;
    h.position_offset *= 2;
    h.frequencies.attention_factor *= h.frequencies.attention_factor;
  });
  for (double offset : {1.0, -1.0}) {
    mistakes.add(
        Kind::position, "positions shifted", [&](RopeHypothesis& h) { h.position_offset += offset; },
        fmt::format("by {:+}", offset));
  }
  const std::vector<ScalingMistake> of_scaling = scaling_mistakes(meant.scaling, meant.seq_len);
  add_attention_factors(meant, of_scaling, mistakes);
  add_frequencies(meant, head_dim, of_scaling, mistakes);
  for (const auto& [name, scaling] : others) {
    mistakes.add_scaling(fmt::format("parameters of {} layers", name), [&](RopeScaling& c) { c = scaling; });
  }
  return mistakes.take();
}

RopeHypothesis combine(const RopeHypothesis& meant, const NamedMistake& first, const NamedMistake& second) {
  RopeHypothesis both = first.hypothesis;
  const RopeHypothesis& b = second.hypothesis;
  switch (second.kind) {
    case Kind::pairing:
      both.layout = b.layout;
      break;
    case Kind::position:
      both.position_scale = b.position_scale;
      both.position_offset = b.position_offset;
      both.sign = b.sign;
      // Turned twice, the attention factor counts twice.
      both.frequencies.attention_factor *= b.frequencies.attention_factor / meant.frequencies.attention_factor;
      break;
    case Kind::attention_factor:
      both.frequencies.attention_factor = b.frequencies.attention_factor;
      break;
    case Kind::frequency:
      both.frequencies.inv_freq = b.frequencies.inv_freq;
      both.scaling = b.scaling;
      both.bent = b.bent;
      break;
  }
  both.mistakes.insert(both.mistakes.end(), b.mistakes.begin(), b.mistakes.end());
  if (!b.detail.empty()) both.detail += (both.detail.empty() ? "" : "; ") + b.detail;
  return both;
}

}  // namespace poslab
