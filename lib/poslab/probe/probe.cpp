#include "poslab/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

using Kind = NamedMistake::Kind;

// Roundings that are nobody's mistake, and those that are one, with its name.
struct Rounding {
  std::string_view profile;
  std::string_view mistake;
};
constexpr Rounding fine_roundings[] = {{"f64", ""},          {"f32_table", ""}, {"f32_angle", ""},
                                       {"f32_inv_freq", ""}, {"hf_f32", ""},    {"ggml_f32", ""}};
constexpr Rounding coarse_roundings[] = {
    {"bf16_table", "tables in bf16"},
    {"bf16_angle", "angles in bf16"},
    {"bf16_angle_only", "angles in bf16"},
    {"bf16_inv_freq", "inv_freq in bf16"},
    {"bf16_inv_freq_only", "inv_freq in bf16"},
    {"bf16_position", "positions in bf16"},
    {"bf16_position_only", "positions in bf16"},
    {"bf16_all", "everything in bf16"},
    {"f16_table", "tables in f16"},
    {"f16_angle", "angles in f16"},
    {"f16_angle_only", "angles in f16"},
    {"f16_inv_freq", "inv_freq in f16"},
    {"f16_inv_freq_only", "inv_freq in f16"},
    {"f16_position", "positions in f16"},
    {"f16_position_only", "positions in f16"},
    {"f16_all", "everything in f16"},
};

class Search {
 public:
  Search(const ProbeEvidence& evidence, const ProbeQuestion& question) : evidence_(evidence), question_(question) {}

  // How much smaller a misfit must be for a later rounding to take an earlier one's place.
  static constexpr double plainest = 0.75, nearest_one = 1;

  // The hypothesis under its best fine rounding, and under its best coarse one, which counts as a further mistake.
  void consider(const RopeHypothesis& h, int complexity) {
    // Both, since a coarse rounding that does nothing here must not look better than a fine one that was passed over.
    add(best_of(h, fine_roundings, complexity, plainest));
    add(best_of(h, fine_roundings, complexity, nearest_one));
    add(best_of(h, coarse_roundings, complexity + 1, plainest));
    if (question_.profile.empty()) return;
    RopeHypothesis meant = h;
    meant.profile = question_.profile;
    add(ranked(meant, complexity));
  }

  // The hypotheses that come nearest without regard to rounding, each under its best roundings.
  void consider_nearest(std::vector<RopeHypothesis> hypotheses, int complexity) {
    constexpr std::size_t most = 6;
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      if (const auto candidate = ranked(hypotheses[i], complexity)) order.emplace_back(candidate->misfit.total, i);
    }
    std::sort(order.begin(), order.end());
    order.resize(std::min(order.size(), most));
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [misfit, i] : order) consider(hypotheses[i], complexity);
  }

  std::optional<RankedHypothesis> ranked(RopeHypothesis h, int complexity) const {
    try {
      const std::optional<Misfit> misfit = evidence_.misfit(h);
      if (!misfit) return std::nullopt;
      const bool acceptable = evidence_.acceptable(h, *misfit);
      return RankedHypothesis{std::move(h), *misfit, complexity, acceptable};
    } catch (const std::invalid_argument&) {
      return std::nullopt;  // a profile that these frequencies do not have
    }
  }

  template <std::size_t n>
  std::optional<RankedHypothesis> best_of(const RopeHypothesis& h, const Rounding (&roundings)[n], int complexity,
                                          double gain) const {
    std::optional<RankedHypothesis> best;
    for (const Rounding& rounding : roundings) {
      if (rounding.profile == question_.profile) continue;
      RopeHypothesis rounded = h;
      rounded.profile = rounding.profile;
      if (!rounding.mistake.empty()) rounded.mistakes.emplace_back(rounding.mistake);
      const auto candidate = ranked(std::move(rounded), complexity);
      if (candidate && (!best || candidate->misfit.total < gain * best->misfit.total)) best = candidate;
    }
    return best;
  }

  void add(const std::optional<RankedHypothesis>& candidate) {
    if (candidate) all_.push_back(*candidate);
  }

  const RankedHypothesis* nearest() const {
    const auto best = std::min_element(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
      return std::pair(!a.acceptable, a.misfit.total) < std::pair(!b.acceptable, b.misfit.total);
    });
    return best == all_.end() ? nullptr : &*best;
  }

  // The simplest hypotheses that the data do not set apart from the nearest one; empty where nothing is acceptable.
  std::vector<const RankedHypothesis*> chosen() const {
    const RankedHypothesis* best = nearest();
    std::vector<const RankedHypothesis*> equals;
    if (!best || !best->acceptable) return equals;
    for (const RankedHypothesis& h : all_) {
      if (!h.acceptable || clearly_worse(h.misfit, best->misfit)) continue;
      if (!equals.empty() && h.complexity > equals.front()->complexity) continue;
      if (!equals.empty() && h.complexity < equals.front()->complexity) equals.clear();
      equals.push_back(&h);
    }
    return equals;
  }

  // Whether noise alone is left, so that no further hypothesis could do better.
  bool settled() const {
    const auto equals = chosen();
    return !equals.empty() && equals.front()->misfit.turns <= 1.5 * evidence_.dof(equals.front()->hypothesis);
  }

 private:
  const ProbeEvidence& evidence_;
  const ProbeQuestion& question_;
  std::vector<RankedHypothesis> all_;
};

bool same_word(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

// What sets an inferred implementation apart from the meant one, by parameter.
void name_differences(const RopeHypothesis& meant, RopeHypothesis& found) {
  std::vector<std::string> names, details;
  const auto differs = [&](std::string name, std::string detail) {
    names.push_back(std::move(name));
    details.push_back(std::move(detail));
  };
  if (found.layout != meant.layout) differs("pairing swapped", std::string(to_word(found.layout)));
  if (found.rotary_dim() != meant.rotary_dim()) {
    differs("another rotary_dim", fmt::format("{} instead of {}", found.rotary_dim(), meant.rotary_dim()));
  }
  if (!same_word(found.scaling.rope_theta, meant.scaling.rope_theta)) {
    differs(found.scaling.rope_theta == 10000 ? "base default used" : "another base",
            fmt::format("{} instead of {}", found.scaling.rope_theta, meant.scaling.rope_theta));
  }
  if (found.scaling.rope_type != meant.scaling.rope_type) {
    differs("another scaling",
            fmt::format("{} instead of {}", to_word(found.scaling.rope_type), to_word(meant.scaling.rope_type)));
  } else if (found.scaling.factor && meant.scaling.factor && !same_word(*found.scaling.factor, *meant.scaling.factor)) {
    differs("another factor", fmt::format("{} instead of {}", *found.scaling.factor, *meant.scaling.factor));
  }
  if (!same_word(found.frequencies.attention_factor, meant.frequencies.attention_factor)) {
    differs("another attention factor", fmt::format("{:.7g} instead of {:.7g}", found.frequencies.attention_factor,
                                                    meant.frequencies.attention_factor));
  }
  if (names.empty() && found.mistakes.empty()) differs("other frequencies", "");
  found.mistakes.insert(found.mistakes.begin(), names.begin(), names.end());
  for (const std::string& detail : details) {
    if (!detail.empty()) found.detail += (found.detail.empty() ? "" : "; ") + detail;
  }
}

std::string joined_names(const std::vector<const RankedHypothesis*>& equals) {
  std::vector<std::string> names;
  for (const RankedHypothesis* h : equals) {
    std::string name = h->hypothesis.mistake();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) text += (i == 0 ? "" : " or ") + names[i];
  if (names.size() > shown) text += " or others";
  return text;
}

void add_named(const ProbeEvidence& evidence, const ProbeQuestion& question, Search& search,
               std::vector<NamedMistake>& all_mistakes) {
  for (const RopeHypothesis& meant : question.meant) {
    search.consider(meant, 0);
    std::vector<NamedMistake> mistakes = named_mistakes(meant, question.head_dim, question.others);
    std::erase_if(mistakes, [&](const NamedMistake& m) {
      // With both layouts open neither is a mistake.
      return !evidence.shows(m.kind) || (m.kind == Kind::pairing && question.meant.size() > 1);
    });
    std::vector<RopeHypothesis> single, twofold;
    for (const NamedMistake& m : mistakes) single.push_back(m.hypothesis);
    search.consider_nearest(std::move(single), 1);
    if (!search.settled() && !evidence.hopeless()) {
      for (const NamedMistake& first : mistakes) {
        for (const NamedMistake& second : mistakes) {
          if (first.kind < second.kind) twofold.push_back(combine(meant, first, second));
        }
      }
      search.consider_nearest(std::move(twofold), 2);
    }
    all_mistakes.insert(all_mistakes.end(), mistakes.begin(), mistakes.end());
  }
}

// Where nothing was meant: no turn at all, and plain RoPE to measure what remains unexplained.
void consider_plain(const ProbeQuestion& question, Search& search) {
  RopeHypothesis plain;
  RopeScaling scaling;
  scaling.head_dim = scaling.rotary_dim = question.head_dim;
  set_scaling(plain, scaling);
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    plain.layout = layout;
    constexpr int last_resort = 9;
    search.add(search.ranked(plain, last_resort));
    RopeHypothesis still = plain;
    still.position_scale = 0;
    still.mistakes = {"not rotated"};
    search.add(search.ranked(still, 1));
  }
}

constexpr std::string_view gross[] = {"not rotated", "pairing swapped", "base default used"};

}  // namespace

double difference_at(const RopeTurns& a, const RopeTurns& b, double position) {
  double sum = 0;
  const std::int64_t n = std::min(a.n_pairs(), b.n_pairs());
  for (std::int64_t i = 0; i < n; ++i) sum += std::norm(a(position, i) - b(position, i));
  return std::sqrt(sum / static_cast<double>(n));
}

ProbeFinding probe(const ProbeEvidence& evidence, const ProbeQuestion& question,
                   const std::function<std::vector<RopeHypothesis>()>& infer) {
  Search search(evidence, question);
  std::vector<NamedMistake> mistakes;
  add_named(evidence, question, search, mistakes);
  if (!search.settled() && !evidence.hopeless()) {
    for (RopeHypothesis& h : infer()) {
      const int own = static_cast<int>(h.mistakes.size());
      if (!question.meant.empty()) name_differences(question.meant.front(), h);
      search.consider(h, question.meant.empty() ? own : 3);
    }
  }

  if (question.meant.empty()) consider_plain(question, search);

  ProbeFinding finding;
  if (question.meant.empty() && evidence.still()) {
    if (const RankedHypothesis* best = search.nearest()) finding.best = *best;
    return finding;  // no turn is every implementation's turn at position 0
  }
  const auto equals = search.chosen();
  finding.explained = !equals.empty();
  if (!finding.explained) {
    if (const RankedHypothesis* best = search.nearest()) finding.best = *best;
    finding.verdict = ProbeVerdict::mismatch;
    finding.mistake = unexplained;
    return finding;
  }
  finding.best = *equals.front();
  const RopeHypothesis& found = finding.best->hypothesis;
  if (finding.best->complexity > 0) finding.mistake = joined_names(equals);
  // The mistakes beside what was found: relative to what was meant, else to the finding itself.
  if (question.meant.empty()) {
    RopeHypothesis plain = found;
    plain.mistakes.clear();
    mistakes = named_mistakes(plain, question.head_dim, question.others);
    std::erase_if(mistakes, [&](const NamedMistake& m) { return !evidence.shows(m.kind); });
  }
  for (const NamedMistake& m : mistakes) {
    RopeHypothesis h = m.hypothesis;
    h.profile = found.profile;
    auto alternative = search.ranked(h, 1);
    if (!alternative) {
      h.profile = "f64";
      alternative = search.ranked(std::move(h), 1);
    }
    if (!alternative) continue;
    const std::string name = alternative->hypothesis.mistake();
    const bool same = std::any_of(equals.begin(), equals.end(),
                                  [&](const RankedHypothesis* e) { return e->hypothesis.mistake() == name; });
    if (!same && !clearly_worse(alternative->misfit, finding.best->misfit) &&
        std::find(finding.not_ruled_out.begin(), finding.not_ruled_out.end(), name) == finding.not_ruled_out.end()) {
      finding.not_ruled_out.push_back(name);
    }
    finding.alternatives.push_back(std::move(*alternative));
  }
  const bool blind = std::any_of(std::begin(gross), std::end(gross), [&](std::string_view name) {
    return std::find(finding.not_ruled_out.begin(), finding.not_ruled_out.end(), name) != finding.not_ruled_out.end();
  });
  finding.verdict = !finding.mistake.empty() ? ProbeVerdict::mismatch
                    : blind                  ? ProbeVerdict::undecided
                                             : ProbeVerdict::match;
  return finding;
}

}  // namespace poslab
