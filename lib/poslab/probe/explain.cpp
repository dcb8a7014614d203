#include "poslab/probe/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "poslab/core/threads.h"
#include "poslab/probe/inference.h"
#include "poslab/probe/parameter_fits.h"
#include "poslab/probe/position_patterns.h"
#include "poslab/probe/roundings.h"

namespace poslab {
namespace {

using Kind = NamedMistake::Kind;

// Frequencies that an engine may use, and what that would be called.
struct FrequencySet {
  RopeHypothesis rope;
  std::string mistake, detail;
};

class Investigation {
 public:
  Investigation(const VectorDump& dump, const RopeHypothesis& meant, const ProbeQuestion& question, int threads)
      : dump_(dump),
        meant_(meant),
        question_(question),
        threads_(threads),
        whole_(all_rows(dump)),
        sample_(sample_rows(dump)),
        meant_pairing_(make_model(meant).pairing) {}

  Explained run() {
    Explained out;
    EngineModel model = make_model(meant_);
    out.meant = judge_meant(dump_, model, question_, whole_, threads_);
    Explanation as_meant{model, {}, {}, {}, 0, out.meant};
    if (!as_meant.fits() && meant_.also_written) {
      as_meant.model.pairing.write = *meant_.also_written;
      Judgement other = judge_meant(dump_, as_meant.model, question_, whole_, threads_);
      if (other.residual < out.meant.residual) {
        as_meant.judgement = out.meant = std::move(other);
        meant_pairing_ = as_meant.model.pairing;
        model = as_meant.model;
      }
    }
    if (as_meant.fits()) return finish(std::move(out), std::move(as_meant));
    nearest_ = as_meant;
    nearest_.judgement = judge_meant(dump_, model, question_, sample_, threads_);
    collect_frequency_sets();
    for (const auto& [pairing, gains] : likely_pairings()) {
      if (!best_.empty() && !pairing.mistake.empty() && best_.front().weight <= 1) break;
      investigate(pairing, gains);
    }
    if (best_.empty()) {
      nearest_.judgement = nearest_by_profile_ ? judge(dump_, nearest_.model, Tolerance::profile, whole_, threads_)
                                               : judge_meant(dump_, nearest_.model, question_, whole_, threads_);
      return finish(std::move(out), std::move(nearest_));
    }
    Explanation best = std::move(best_.front());
    for (std::size_t i = 1; i < best_.size(); ++i) best.equals.push_back(best_[i].mistake());
    return finish(std::move(out), std::move(best));
  }

 private:
  static Explained finish(Explained out, Explanation best) {
    out.explained = best.fits();
    out.best = std::move(best);
    return out;
  }

  void collect_frequency_sets() {
    sets_.push_back({meant_, "", ""});
    named_ = named_mistakes(meant_, question_.head_dim, question_.others);
    for (const NamedMistake& m : named_) {
      if (m.kind == Kind::pairing || m.kind == Kind::attention_factor) continue;
      sets_.push_back({m.hypothesis, m.hypothesis.mistake(), m.hypothesis.detail});
    }
  }

  std::vector<std::pair<Pairing, Gains>> likely_pairings() const {
    std::vector<std::pair<Pairing, Gains>> all;
    std::vector<Pairing> pairings = known_pairings(meant_pairing_, question_.head_dim);
    std::vector<std::int64_t> widths = {meant_.rotary_dim()};
    for (const FrequencySet& set : sets_) {
      if (std::find(widths.begin(), widths.end(), set.rope.rotary_dim()) != widths.end()) continue;
      if (set.rope.rotary_dim() > dump_.head_dim) continue;
      widths.push_back(set.rope.rotary_dim());
      pairings.push_back(plain_pairing(meant_.layout, widths.back()));
    }
    double least = 1;
    for (Pairing& p : pairings) {
      const double wanted = meant_.frequencies.attention_factor;
      Gains gains = measure_gains(dump_, p, wanted, sample_);
      if (!p.own_table()) gains = {wanted, wanted, 0, 0, gains.told};
      if (p.own_table()) least = std::min(least, gains.share_wrong);
      all.emplace_back(std::move(p), gains);
    }
    std::erase_if(all, [&](const auto& p) { return p.second.share_wrong > least + 0.02; });
    return all;
  }

  // A gain of what was meant, or of a named mistake, where the measured one is as near as the data tell.
  EngineModel model_of(const RopeHypothesis& rope, const Pairing& pairing, const Gains& gains) const {
    EngineModel model;
    model.rope = rope;
    model.pairing = pairing;
    const double error = std::max(gains.error, 1e-6);
    const auto snapped = [&](double measured) {
      for (double known : {rope.frequencies.attention_factor, meant_.frequencies.attention_factor, 1.0}) {
        if (std::abs(measured / known - 1) <= error) return known;
      }
      for (const NamedMistake& m : named_) {
        const double known = m.hypothesis.frequencies.attention_factor;
        if (std::abs(measured / known - 1) <= error) return known;
      }
      return measured;
    };
    model.cos_gain = snapped(gains.cos);
    model.sin_gain = snapped(gains.sin);
    if (model.cos_gain == gains.cos || model.sin_gain == gains.sin) model.gain_error = gains.error;
    return model;
  }

  void name_gains(Explanation& e, double own) const {
    const double wanted = meant_.frequencies.attention_factor, c = e.model.cos_gain, s = e.model.sin_gain;
    const auto same = [](double a, double b) { return std::abs(a / b - 1) < 1e-6; };
    if ((same(c, own) && same(s, own)) || (same(c, wanted) && same(s, wanted))) return;
    const auto note = [&](std::string mistake, std::string detail) {
      e.mistakes.push_back(std::move(mistake));
      e.details.push_back(std::move(detail));
    };
    if (!same(c, s)) {
      if (same(s, wanted)) return note("gain on cos alone", fmt::format("{:.6g} instead of {:.6g}", c, wanted));
      if (same(c, wanted)) return note("gain on sin alone", fmt::format("{:.6g} instead of {:.6g}", s, wanted));
      return note("gains of cos and sin differ", fmt::format("{:.6g} and {:.6g} instead of {:.6g}", c, s, wanted));
    }
    for (const NamedMistake& m : named_) {
      if (m.kind != Kind::attention_factor || !same(c, m.hypothesis.frequencies.attention_factor)) continue;
      return note(m.hypothesis.mistake(), m.hypothesis.detail);
    }
    const double root = std::sqrt(static_cast<double>(question_.head_dim));
    const std::string_view hint = same(c * root, wanted)   ? ", the attention's 1/sqrt(head_dim)"
                                  : same(c, root * wanted) ? ", sqrt(head_dim)"
                                                           : "";
    note("another attention factor", fmt::format("{:.6g} instead of {:.6g}{}", c, wanted, hint));
  }

  // Judged on the sample first. True where all rows fit.
  bool attempt(EngineModel model, std::vector<std::string> mistakes, std::vector<std::string> details, double own_gain,
               bool by_profile = false) {
    try {
      const auto judged = [&](const Selection& rows) {
        return by_profile ? judge(dump_, model, Tolerance::profile, rows, threads_)
                          : judge_meant(dump_, model, question_, rows, threads_);
      };
      Judgement few = judged(sample_);
      Judgement all;
      const bool fits = few.fits() && (all = judged(whole_)).fits();
      Explanation e{std::move(model), std::move(mistakes), std::move(details), {}, 0, {}};
      name_gains(e, own_gain);
      e.weight = static_cast<int>(e.mistakes.size());
      for (const std::string& m : e.mistakes) e.weight += only_describes(m) ? 1 : 0;
      if (fits) {
        e.judgement = std::move(all);
        keep(std::move(e));
        return true;
      }
      const auto distance = [](const Judgement& j) { return std::pair(std::round(8 * j.share_wrong()), j.residual); };
      if (distance(few) < distance(nearest_.judgement)) {
        e.judgement = std::move(few);
        nearest_ = std::move(e);
        nearest_by_profile_ = by_profile;
      }
    } catch (const std::invalid_argument&) {
      // a profile that these frequencies do not have
    }
    return false;
  }

  // Names that say what is different, but not what went wrong.
  static bool only_describes(const std::string& mistake) {
    return mistake == "other frequencies" || mistake == "other positions used" || mistake == "positions multiplied";
  }

  void keep(Explanation e) {
    if (!best_.empty() && e.weight > best_.front().weight) return;
    if (!best_.empty() && e.weight < best_.front().weight) best_.clear();
    for (const Explanation& other : best_) {
      if (other.mistake() == e.mistake()) return;
    }
    best_.push_back(std::move(e));
  }

  static void name(std::vector<std::string>& mistakes, std::vector<std::string>& details, const std::string& mistake,
                   const std::string& detail) {
    if (mistake.empty()) return;
    mistakes.push_back(mistake);
    if (!detail.empty()) details.push_back(detail);
  }

  bool try_set(const Pairing& pairing, const Gains& gains, const FrequencySet& set) {
    if (set.rope.rotary_dim() != pairing.rotary_dim) return false;
    std::vector<std::string> mistakes, details;
    name(mistakes, details, pairing.mistake, "");
    name(mistakes, details, set.mistake, set.detail);
    return attempt(model_of(set.rope, pairing, gains), mistakes, details, set.rope.frequencies.attention_factor);
  }

  void investigate(const Pairing& pairing, const Gains& gains) {
    const std::size_t before = best_.size();
    for (const FrequencySet& set : sets_) try_set(pairing, gains, set);
    if (!best_.empty()) return try_equal_parameters(pairing, gains);
    try_roundings(pairing, gains);
    if (best_.size() > before) {
      // Slow pairs that stand still may hide below a coarse rounding.
      if (meant_.rotary_dim() == pairing.rotary_dim && pairing.own_table()) {
        try_some_pairs(pairing, gains, measure_frequencies(dump_, pairing, gains, sample_));
      }
      return;
    }
    bool positions = false;
    if (meant_.rotary_dim() == pairing.rotary_dim) positions = try_positions(pairing, gains, sets_.front());
    if (pairing.own_table()) {
      if (!best_.empty() && !multiplied_) return;
      try_measured(pairing, gains);
      if (!best_.empty()) return;
      for (const FrequencySet& set : sets_) {
        if (positions || set.rope.rotary_dim() != pairing.rotary_dim || set.mistake.empty()) continue;
        try_positions(pairing, gains, set);
      }
    }
  }

  // Where one parameter explains the data, another may do as well: ramps with rounded ends have few shapes.
  void try_equal_parameters(const Pairing& pairing, const Gains& gains) {
    const Explanation& found = best_.front();
    if (found.weight != 1 || found.mistakes.front() != "original length wrong" || !pairing.mistake.empty()) return;
    try_fitted(pairing, gains, fit_parameters(meant_, measure_frequencies(dump_, pairing, gains, sample_)));
  }

  void try_roundings(const Pairing& pairing, const Gains& gains) {
    if (meant_.rotary_dim() != pairing.rotary_dim) return;
    for (const Rounding& rounding : coarse_roundings) {
      if (rounding.profile == question_.profile) continue;
      RopeHypothesis rope = meant_;
      rope.profile = rounding.profile;
      std::vector<std::string> mistakes, details;
      name(mistakes, details, pairing.mistake, "");
      name(mistakes, details, std::string(rounding.mistake), "");
      if (attempt(model_of(rope, pairing, gains), mistakes, details, rope.frequencies.attention_factor, true)) return;
    }
  }

  // How fast each pair rotates for each token of the position, signed.
  static std::vector<double> speeds(const RopeHypothesis& rope) {
    std::vector<double> w = rope.frequencies.inv_freq;
    for (double& f : w) f *= rope.sign * rope.position_scale;
    return w;
  }

  double reach() const {
    double most = 0;
    for (double p : dump_.positions) most = std::max(most, std::abs(p));
    return 2 * most + static_cast<double>(dump_.positions.size()) + 1024;
  }

  bool try_positions(const Pairing& pairing, const Gains& gains, const FrequencySet& set) {
    if (!pairing.own_table()) return false;
    EngineModel model = model_of(set.rope, pairing, gains);
    const std::vector<double> w = speeds(set.rope);
    // On the sample first: do the pairs of a wrong row agree on any position?
    const double far = reach();
    const Judgement few = judge_meant(dump_, model, question_, sample_, threads_);
    std::size_t wrong = 0, solved = 0;
    const std::size_t vectors = sample_.vectors.size();
    for (std::size_t r = 0; r < few.row_ratio.size() && wrong < 48; ++r) {
      if (few.row_ratio[r] <= 1) continue;
      ++wrong;
      const RowTurns row =
          measure_row(dump_, pairing, gains, sample_.places[r / vectors], sample_.vectors[r % vectors]);
      solved += solve_position(row, w, far) ? 1 : 0;
    }
    if (wrong > 0 && static_cast<double>(solved) < 0.6 * static_cast<double>(wrong)) return false;
    const Judgement all = judge_meant(dump_, model, question_, whole_, threads_);
    auto used = std::make_shared<std::vector<double>>(all.row_ratio.size());
    const std::size_t heads = whole_.vectors.size();
    parallel_for(static_cast<std::int64_t>(dump_.positions.size()), threads_, [&](std::int64_t task) {
      const auto place = static_cast<std::size_t>(task);
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t row = place * heads + h;
        (*used)[row] = dump_.positions[place];
        if (all.row_ratio[row] <= 1) continue;
        const auto solution = solve_position(measure_row(dump_, pairing, gains, place, h), w, far);
        if (solution) (*used)[row] = solution->value;
      }
    });
    const PositionGrid grid{dump_.n_batches, static_cast<std::int64_t>(dump_.positions.size()) / dump_.n_batches,
                            dump_.n_vectors, dump_.positions, *used};
    std::vector<PositionPattern> patterns = position_patterns(grid);
    if (patterns.empty()) patterns.push_back({"other positions used", ""});
    model.used = used;
    const std::size_t before = best_.size();
    for (const PositionPattern& pattern : patterns) {
      std::vector<std::string> mistakes, details;
      name(mistakes, details, pairing.mistake, "");
      name(mistakes, details, set.mistake, set.detail);
      name(mistakes, details, pattern.mistake, pattern.detail);
      multiplied_ = multiplied_ || pattern.mistake == "positions doubled" || pattern.mistake == "positions multiplied";
      if (!attempt(model, mistakes, details, set.rope.frequencies.attention_factor)) break;
    }
    return best_.size() > before;
  }

  void try_measured(const Pairing& pairing, const Gains& gains) {
    const MeasuredFrequencies measured = measure_frequencies(dump_, pairing, gains, sample_);
    const bool known_width = meant_.rotary_dim() == pairing.rotary_dim;
    if (known_width) try_some_pairs(pairing, gains, measured);
    if (!best_.empty() && best_.front().weight <= 1 && !multiplied_) return;
    std::vector<RopeHypothesis> fitted;
    if (known_width) fitted = fit_parameters(meant_, measured);
    if (fitted.empty()) {
      fitted = explain_frequencies(measured, gains.cos, std::max(3 * gains.error, 1e-6));
      for (RopeHypothesis& h : fitted) {
        h.seq_len = meant_.seq_len;
        name_differences(meant_, h);
      }
    }
    try_fitted(pairing, gains, std::move(fitted));
  }

  void try_fitted(const Pairing& pairing, const Gains& gains, std::vector<RopeHypothesis> fitted) {
    for (RopeHypothesis& h : fitted) {
      const auto same = [&](const Explanation& e) {
        const RopeScaling& s = e.model.rope.scaling;
        return !e.model.rope.bent && s.original_max_position_embeddings == h.scaling.original_max_position_embeddings &&
               s.rope_theta == h.scaling.rope_theta && s.factor == h.scaling.factor &&
               s.beta_slow == h.scaling.beta_slow && s.beta_fast == h.scaling.beta_fast &&
               s.low_freq_factor == h.scaling.low_freq_factor && s.high_freq_factor == h.scaling.high_freq_factor;
      };
      if (std::any_of(best_.begin(), best_.end(), same)) continue;
      h.layout = pairing.read;
      std::vector<std::string> mistakes, details;
      name(mistakes, details, pairing.mistake, "");
      for (const std::string& m : h.mistakes) name(mistakes, details, m, "");
      if (!h.detail.empty()) details.push_back(h.detail);
      attempt(model_of(h, pairing, gains), mistakes, details, h.frequencies.attention_factor);
    }
  }

  // What was meant, but for some pairs.
  void try_some_pairs(const Pairing& pairing, const Gains& gains, const MeasuredFrequencies& measured) {
    EngineModel model = model_of(meant_, pairing, gains);
    const Judgement all = judge_meant(dump_, model, question_, whole_, threads_);
    std::vector<std::size_t> wrong;
    const std::vector<double> w = speeds(meant_);
    model.frequency_error.assign(w.size(), 0);
    double least = 1e300, most = -1e300;
    bool still = true;
    const std::vector<double> lengths = measure_pair_gains(dump_, pairing, sample_);
    model.copied.assign(w.size(), 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (all.pair_ratio[i] <= 1 || w[i] == 0) continue;
      if (!std::isfinite(measured.error[i])) return;
      wrong.push_back(i);
      const bool zero = std::abs(measured.value[i]) <= 3 * measured.error[i];
      still = still && zero;
      model.copied[i] = zero && std::abs(lengths[i] - 1) < 1e-3 && std::abs(model.cos_gain - 1) > 2e-3;
      model.rope.frequencies.inv_freq[i] = zero ? 0 : measured.value[i] / (meant_.sign * meant_.position_scale);
      model.frequency_error[i] = zero ? 0 : 3 * measured.error[i];
      least = std::min(least, measured.value[i] / w[i]);
      most = std::max(most, measured.value[i] / w[i]);
    }
    if (wrong.empty()) return;
    model.rope.bent = true;
    const bool all_pairs = wrong.size() == w.size();
    std::vector<std::string> mistakes, details;
    name(mistakes, details, pairing.mistake, "");
    const std::string which = wrong.size() == 1 ? fmt::format("pair {}", wrong.front())
                                                : fmt::format("{} of {} pairs", wrong.size(), w.size());
    if (still) {
      name(mistakes, details, all_pairs ? "not rotated" : "pairs not rotated", which);
    } else if (std::abs(least + 1) < 1e-3 && std::abs(most + 1) < 1e-3) {
      name(mistakes, details, all_pairs ? "negative angle" : "negative angle in some pairs", which);
    } else if (exponent_halved(measured)) {
      name(mistakes, details, "exponent without the 2", "as far as it shows");
    } else if (most - least < 1e-6 * std::abs(most) + 1e-9 || wrong.size() == 1) {
      name(mistakes, details, "other frequencies", fmt::format("{} at {:.7g} times", which, most));
    } else {
      name(mistakes, details, "other frequencies", fmt::format("{} at {:.4g} to {:.4g} times", which, least, most));
    }
    attempt(std::move(model), mistakes, details, meant_.frequencies.attention_factor);
  }

  // base^(-i / d) in at least the faster half of the pairs.
  bool exponent_halved(const MeasuredFrequencies& measured) const {
    const auto n = static_cast<double>(measured.value.size());
    for (std::size_t i = 0; 2 * i < measured.value.size(); ++i) {
      const double expected = std::pow(meant_.scaling.rope_theta, -static_cast<double>(i) / (2 * n));
      if (std::abs(measured.value[i] - expected) > 4 * measured.error[i] + 1e-5 * expected) return false;
    }
    return measured.value.size() > 3;
  }

  const VectorDump& dump_;
  const RopeHypothesis& meant_;
  const ProbeQuestion& question_;
  int threads_;
  Selection whole_, sample_;
  Pairing meant_pairing_;
  std::vector<FrequencySet> sets_;
  std::vector<NamedMistake> named_;
  std::vector<Explanation> best_;
  Explanation nearest_;
  bool nearest_by_profile_ = false;
  bool multiplied_ = false;
};

}  // namespace

std::string Explanation::mistake() const {
  std::string text = fmt::format("{}", fmt::join(mistakes, " and "));
  for (const std::string& other : equals) text += " or " + other;
  return text;
}

Judgement judge_meant(const VectorDump& dump, const EngineModel& model, const ProbeQuestion& question,
                      const Selection& rows, int threads) {
  if (!question.profile.empty()) return judge(dump, model, Tolerance::profile, rows, threads);
  Judgement j = judge(dump, model, Tolerance::hf, rows, threads);
  if (j.fits() || j.worst > 100) return j;
  Judgement ggml = judge(dump, model, Tolerance::ggml, rows, threads);
  return ggml.worst < j.worst ? ggml : j;
}

Explained explain(const VectorDump& dump, const RopeHypothesis& meant, const ProbeQuestion& question, int threads) {
  return Investigation(dump, meant, question, threads).run();
}

}  // namespace poslab
