#include "poslab/probe/examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "poslab/probe/evidence.h"
#include "poslab/probe/inference.h"

namespace poslab {
namespace {

// Residuals of the best and of the meant hypothesis over the whole dump, and where the best one breaks off.
template <class Residuals>
void examine_whole(Examined& e, const ProbeQuestion& question, const TurnEvidence& evidence, Residuals residuals_of) {
  e.noise = evidence.noise();
  e.stored_as = evidence.stored_as();
  if (e.finding.best) e.fit = residuals_of(e.finding.best->hypothesis);
  double least = std::numeric_limits<double>::infinity();
  for (const RopeHypothesis& meant : question.meant) {
    if (!evidence.misfit(meant)) continue;
    std::vector<double> left = residuals_of(meant);
    const double size = root_mean_square(left);
    if (size >= least) continue;
    least = size;
    e.meant = std::move(left);
  }
}

// Hypotheses for what no named mistake explains: what was meant with a shift of any size, then without regard to it.
std::vector<RopeHypothesis> further_hypotheses(const TurnEvidence& evidence, const ProbeQuestion& question) {
  std::vector<RopeHypothesis> further;
  for (const RopeHypothesis& meant : question.meant) {
    if (auto ahead = shifted(evidence, meant)) further.push_back(std::move(*ahead));
  }
  for (RopeHypothesis& h : infer_hypotheses(evidence)) further.push_back(std::move(h));
  return further;
}

}  // namespace

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

Examined examine_vectors(ProbedTensor tensor, const LoadedVectors& loaded, const ProbeQuestion& question, int threads) {
  Examined e;
  e.tensor = tensor;
  e.positions = loaded.dump.positions;
  const TurnEvidence evidence = TurnEvidence::from_vectors(loaded.dump);
  e.finding = probe(evidence, question, [&] { return further_hypotheses(evidence, question); });
  examine_whole(e, question, evidence, [&](const RopeHypothesis& h) { return residuals(loaded.dump, h, threads); });
  return e;
}

Examined examine_table(const LoadedTable& table, const ProbeQuestion& question) {
  Examined e;
  e.tensor = ProbedTensor::table;
  e.has_pairing = false;
  e.positions = table.dump.positions;
  const TurnEvidence evidence = TurnEvidence::from_table(table.dump);
  e.finding = probe(evidence, question, [&] { return further_hypotheses(evidence, question); });
  examine_whole(e, question, evidence, [&](const RopeHypothesis& h) { return residuals(table.dump, h); });
  return e;
}

Breaks find_breaks(const Examined& e, const std::vector<double>& left) {
  Breaks breaks;
  double worst_good = e.noise, best_bad = std::numeric_limits<double>::infinity(), last_good = -best_bad;
  std::size_t good = 0;
  for (std::size_t s = 0; s < left.size(); ++s) {
    const double position = e.positions[s];
    if (left[s] > 8 * (e.noise + 0x1p-24 * std::abs(position))) {
      breaks.positions.push_back(position);
      best_bad = std::min(best_bad, left[s]);
    } else if (position != 0) {
      ++good;
      last_good = std::max(last_good, position);
      worst_good = std::max(worst_good, left[s]);
    }
  }
  std::sort(breaks.positions.begin(), breaks.positions.end());
  breaks.to_the_end = !breaks.positions.empty() && last_good < breaks.positions.front();
  // A rounding that grows with the position drifts off; it does not break.
  const bool apart = best_bad > 30 * worst_good;
  const bool few = breaks.to_the_end ? good > 0 : good >= 2 * breaks.positions.size();
  return apart && few ? breaks : Breaks{};
}

bool ruled_out_by_name(const ProbeFinding& finding, std::string_view name) {
  return std::find(finding.not_ruled_out.begin(), finding.not_ruled_out.end(), name) == finding.not_ruled_out.end();
}

std::int64_t n_ruled_out_at(const Examined& e, double position) {
  if (!e.finding.explained) return 0;
  const RopeTurns found(e.finding.best->hypothesis);
  std::int64_t n = 0;
  for (const RankedHypothesis& a : e.finding.alternatives) {
    RopeHypothesis other = a.hypothesis;
    // A wrong pairing shows as far as anything turns.
    if (other.layout != e.finding.best->hypothesis.layout) other.position_scale = 0;
    const double difference = difference_at(found, RopeTurns(other), position);
    n += difference > 4 * (e.noise + 0x1p-24 * std::abs(position)) ? 1 : 0;
  }
  return n;
}

std::string shown_profile(const Examined& e, const RopeHypothesis& h) {
  const std::string base = h.profile == "f64" && e.stored_as != DType::f64 ? "f32_table" : h.profile;
  const bool coarse = base.starts_with("bf16") || base.starts_with("f16");
  if (coarse || !e.has_pairing || e.stored_as == DType::f64 || e.stored_as == DType::f32) return base;
  return fmt::format("{}+{}_vectors", base, to_word(e.stored_as));
}

std::optional<double> telling_position(const Examined& e) {
  if (!e.finding.explained) return std::nullopt;
  std::vector<RopeTurns> open;
  for (const RankedHypothesis& a : e.finding.alternatives) {
    if (!ruled_out_by_name(e.finding, a.hypothesis.mistake()) && a.hypothesis.mistake() != "pairing swapped") {
      open.emplace_back(a.hypothesis);
    }
  }
  if (open.empty()) return std::nullopt;
  const RopeTurns found(e.finding.best->hypothesis);
  for (double position = 1; position <= 0x1p20; position *= 2) {
    const double needed = 10 * (e.noise + 0x1p-24 * position);
    if (std::all_of(open.begin(), open.end(),
                    [&](const RopeTurns& a) { return difference_at(found, a, position) > needed; })) {
      return position;
    }
  }
  return std::nullopt;
}

std::vector<double> find_silent(const Examined& e) {
  constexpr std::size_t most = 16;
  std::set<double> silent;
  for (std::size_t s = 0; s < e.positions.size() && silent.size() < most; ++s) {
    const bool hidden = e.finding.verdict == ProbeVerdict::mismatch && !e.meant.empty() && !e.fit.empty()
                            ? e.meant[s] <= 4 * e.fit[s] + 0x1p-24
                            : e.positions[s] == 0;
    if (hidden) silent.insert(e.positions[s]);
  }
  return {silent.begin(), silent.end()};
}

}  // namespace poslab
