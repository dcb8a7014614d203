#include "poslab/probe/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "poslab/probe/explain.h"
#include "poslab/probe/inference.h"
#include "poslab/probe/roundings.h"

namespace poslab {
namespace {

using Kind = NamedMistake::Kind;

bool starts_gross(const std::string& name) {
  for (std::string_view gross : {"not rotated", "pairing swapped", "base default used"}) {
    if (name == gross) return true;
  }
  return name.ends_with("ignored") || name.ends_with("missing");
}

// The plainest rounding that allows the data; the nearest one where none does.
std::string name_profile(const VectorDump& dump, const EngineModel& model, const Selection& rows, int threads) {
  std::string nearest = model.rope.profile;
  double least = 1e300;
  for (const Rounding& rounding : fine_roundings) {
    try {
      EngineModel rounded = model;
      rounded.rope.profile = rounding.profile;
      const Judgement j = judge(dump, rounded, Tolerance::profile, rows, threads);
      if (j.fits()) return std::string(rounding.profile);
      if (j.worst < least) {
        least = j.worst;
        nearest = rounding.profile;
      }
    } catch (const std::invalid_argument&) {
    }
  }
  return nearest;
}

bool is_coarse(std::string_view profile) { return profile.starts_with("bf16") || profile.starts_with("f16"); }

EngineModel with_rope(const EngineModel& model, const RopeHypothesis& rope) {
  EngineModel out = model;
  out.rope = rope;
  out.rope.profile = model.rope.profile;
  out.frequency_error.clear();
  if (rope.layout != model.pairing.read || rope.rotary_dim() != model.pairing.rotary_dim) {
    out.pairing = make_model(rope).pairing;
    // Pairs that the dump's own pairing does not have are rotated.
    if (!out.copied.empty()) out.copied.resize(static_cast<std::size_t>(out.pairing.rotary_dim / 2));
  }
  out.cos_gain = out.sin_gain = rope.frequencies.attention_factor;
  return out;
}

// By how much a pair differs at most between two models, relative.
double difference_at(const EngineModel& a, const EngineModel& b, double position) {
  const RopeTurns first(a.rope), second(b.rope);
  double most = 0;
  const std::int64_t n = std::min(first.n_pairs(), second.n_pairs());
  for (std::int64_t i = 0; i < n; ++i) {
    most = std::max(most, std::abs(a.cos_gain * std::polar(1.0, first.angle(position, i)) -
                                   b.cos_gain * std::polar(1.0, second.angle(position, i))));
  }
  return most;
}

// Which named mistakes would look the same, and how far to look to tell.
void rule_out(ProbeFinding& f, const VectorDump& dump, const ProbeQuestion& question, const RopeHypothesis& right,
              int threads) {
  RopeHypothesis base = right;
  base.mistakes.clear();
  base.layout = f.model.pairing.read;
  ProbeQuestion tolerant = question;
  const bool coarse = is_coarse(f.model.rope.profile) && question.profile.empty();
  if (coarse) tolerant.profile = f.model.rope.profile;
  const Selection sample = sample_rows(dump);
  std::vector<EngineModel> open;
  for (const NamedMistake& m : named_mistakes(base, question.head_dim, question.others)) {
    if (m.kind == Kind::pairing && (question.meant.size() > 1 || !dump.has_pairing)) continue;
    EngineModel other = with_rope(f.model, m.hypothesis);
    ++f.n_alternatives;
    try {
      if (!judge_meant(dump, other, tolerant, sample, threads).fits()) continue;
      const std::string name = m.hypothesis.mistake();
      if (starts_gross(name) && !judge_meant(dump, other, tolerant, all_rows(dump), threads).fits()) continue;
      if (m.kind != Kind::pairing) open.push_back(std::move(other));
      if (std::find(f.not_ruled_out.begin(), f.not_ruled_out.end(), name) == f.not_ruled_out.end()) {
        f.not_ruled_out.push_back(name);
      }
    } catch (const std::invalid_argument&) {
    }
  }
  if (open.empty()) return;
  const double noise = half_ulp(dump.stored_as, 1) + 0x1p-22;
  for (double position = 1; position <= 0x1p20; position *= 2) {
    const double needed = 8 * (noise + 0x1p-22 * position);
    const auto told = [&](const EngineModel& m) { return difference_at(f.model, m, position) > needed; };
    if (std::all_of(open.begin(), open.end(), told)) {
      f.dump_up_to = position;
      return;
    }
  }
}

// Heads, batch rows, pairs and positions where `meant` fails, each list only where something is left that does not.
void locate(ProbeFinding& f, const VectorDump& dump, const Judgement& meant) {
  const auto heads = static_cast<std::size_t>(dump.n_vectors), batches = static_cast<std::size_t>(dump.n_batches);
  const std::size_t places = dump.positions.size(), length = places / batches;
  std::vector<char> head_wrong(heads), row_wrong(batches);
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t h = 0; h < heads; ++h) {
      if (meant.row_ratio[place * heads + h] <= 1) continue;
      head_wrong[h] = row_wrong[place / length] = 1;
      if (!f.first_wrong_position || dump.positions[place] < *f.first_wrong_position) {
        f.first_wrong_position = dump.positions[place];
      }
    }
  }
  const auto listed = [](const auto& wrong, std::vector<std::int64_t>& out) {
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      if (wrong[i]) out.push_back(static_cast<std::int64_t>(i));
    }
    if (out.size() == wrong.size()) out.clear();
  };
  listed(head_wrong, f.wrong_heads);
  listed(row_wrong, f.wrong_rows);
  if (f.model.used && f.explained) {
    constexpr std::size_t most = 64;
    // One head is enough where all agree.
    for (std::size_t place = 0; place < places && f.used_positions.size() < most; ++place) {
      std::set<double> seen;
      for (std::size_t h = 0; h < heads; ++h) {
        const double used = (*f.model.used)[place * heads + h];
        if (used != dump.positions[place] && seen.insert(used).second) f.used_positions.push_back(used);
      }
    }
    return;
  }
  std::vector<char> pair_wrong(meant.pair_ratio.size());
  for (std::size_t i = 0; i < pair_wrong.size(); ++i) pair_wrong[i] = !(meant.pair_ratio[i] <= 1);
  listed(pair_wrong, f.wrong_pairs);
}

void finish(ProbeFinding& f, const VectorDump& dump, int threads) {
  const Selection sample = sample_rows(dump);
  const Gains gains = measure_gains(dump, f.model.pairing, f.model.cos_gain, sample);
  f.measured = measure_frequencies(dump, f.model.pairing, gains, sample);
  f.pair_gains = measure_pair_gains(dump, f.model.pairing, sample);
  f.profile = f.model.rope.profile;
  if (f.explained && !is_coarse(f.profile)) f.profile = name_profile(dump, f.model, sample, threads);
  for (std::size_t i = 0; i < f.found.pair_size.size(); ++i) {
    if (f.found.pair_size[i] == 0) f.silent_pairs.push_back(static_cast<std::int64_t>(i));
  }
}

// What to say of data that no account explains at every place.
void name_partly(ProbeFinding& f) {
  const double meant = f.meant->share_wrong(), left = f.found.share_wrong();
  if (!f.mistake.empty() && left < 0.5 * meant) {
    f.detail += fmt::format("{}{:.2g}% of the rows differ from that too", f.detail.empty() ? "" : "; ", 100 * left);
  } else if (meant <= 0.5) {
    f.mistake = "wrong at some places";
    f.detail = fmt::format("{:.2g}% of the rows", 100 * meant);
  } else {
    f.mistake = unexplained;
    f.detail.clear();
  }
}

bool all_at_origin(const VectorDump& dump) {
  return std::all_of(dump.positions.begin(), dump.positions.end(), [](double p) { return p == 0; });
}

// Parameters out of the data alone.
ProbeFinding examine_unknown(const VectorDump& dump, const ProbeQuestion& question, int threads) {
  ProbeFinding f;
  const TurnEvidence evidence = TurnEvidence::from_vectors(dump);
  std::vector<RopeHypothesis> candidates = infer_hypotheses(evidence);
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    RopeHypothesis plain;
    RopeScaling scaling;
    scaling.head_dim = scaling.rotary_dim = question.head_dim;
    set_scaling(plain, scaling);
    plain.layout = layout;
    candidates.push_back(plain);
    plain.position_scale = 0;
    plain.mistakes = {"not rotated"};
    if (!all_at_origin(dump)) candidates.push_back(plain);
  }
  const RopeHypothesis* nearest = nullptr;
  double least = 1e300;
  const Selection whole = all_rows(dump), sample = sample_rows(dump);
  for (const RopeHypothesis& h : candidates) {
    const EngineModel model = make_model(h);
    const Judgement few = judge_meant(dump, model, question, sample, threads);
    if (few.residual < least) {
      least = few.residual;
      nearest = &h;
    }
    if (!few.fits()) continue;
    Judgement all = judge_meant(dump, model, question, whole, threads);
    if (!all.fits()) continue;
    f.model = model;
    f.found = std::move(all);
    f.explained = true;
    f.mistake = h.mistake();
    f.detail = h.detail;
    break;
  }
  if (all_at_origin(dump)) {
    f.explained = false;
    return f;
  }
  if (!f.explained) {
    ProbeQuestion assumed = question;
    assumed.meant = {*nearest};
    assumed.meant.front().mistakes.clear();
    const Explained e = explain(dump, assumed.meant.front(), assumed, threads);
    f.explained = e.explained;
    f.model = e.best->model;
    f.found = e.best->judgement;
    f.mistake = e.explained ? e.best->mistake() : std::string(unexplained);
    if (e.explained) f.detail = fmt::format("{}", fmt::join(e.best->details, "; "));
  }
  finish(f, dump, threads);
  if (f.explained) rule_out(f, dump, question, f.model.rope, threads);
  if (!f.mistake.empty()) locate(f, dump, f.found);
  return f;
}

}  // namespace

ProbeFinding examine(const VectorDump& dump, const ProbeQuestion& question, int threads) {
  ProbeFinding f;
  if (question.meant.empty()) {
    f = examine_unknown(dump, question, threads);
  } else {
    std::optional<Explained> best;
    const RopeHypothesis* meant = nullptr;
    for (const RopeHypothesis& h : question.meant) {
      Explained e = explain(dump, h, question, threads);
      const auto rank = [](const Explained& x) {
        return std::pair(!x.explained,
                         x.explained ? static_cast<double>(x.best->mistakes.size()) : x.best->judgement.residual);
      };
      if (!best || rank(e) < rank(*best)) {
        best = std::move(e);
        meant = &h;
      }
    }
    f.explained = best->explained;
    f.model = best->best->model;
    f.found = best->best->judgement;
    f.meant = best->meant;
    f.mistake = best->best->mistake();
    f.detail = fmt::format("{}", fmt::join(best->best->details, "; "));
    if (!f.explained) name_partly(f);
    if (f.mistake.empty() && f.model.pairing.write != f.model.pairing.read) {
      f.detail =
          fmt::format("read as {} pairs, written as {}", to_word(f.model.pairing.read), to_word(f.model.pairing.write));
    }
    finish(f, dump, threads);
    if (f.explained) rule_out(f, dump, question, f.mistake.empty() ? *meant : f.model.rope, threads);
    if (!f.mistake.empty()) locate(f, dump, *f.meant);
  }
  const bool blind = std::any_of(f.not_ruled_out.begin(), f.not_ruled_out.end(), starts_gross);
  const bool silent = !f.silent_pairs.empty();
  const bool nothing = question.meant.empty() && all_at_origin(dump);
  f.verdict = nothing              ? ProbeVerdict::undecided
              : !f.mistake.empty() ? ProbeVerdict::mismatch
              : (blind || silent)  ? ProbeVerdict::undecided
                                   : ProbeVerdict::match;
  return f;
}

ProbeFinding examine_frequencies(const std::vector<double>& inv_freq, const ProbeQuestion& question) {
  ProbeFinding f;
  const FrequencyEvidence evidence(inv_freq);
  f.measured = evidence.measured();
  // Relative distance over what is allowed, pair by pair.
  const auto judged = [&](const RopeHypothesis& h) -> std::optional<Judgement> {
    if (h.rotary_dim() != 2 * static_cast<std::int64_t>(inv_freq.size())) return std::nullopt;
    Judgement j;
    j.n_pairs = static_cast<std::int64_t>(inv_freq.size());
    double left = 0;
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const double wanted = h.sign * h.position_scale * h.frequencies.inv_freq[i];
      const double off = std::abs(inv_freq[i] - wanted);
      const double relative = wanted == 0 ? (off == 0 ? 0 : 1) : off / std::abs(wanted);
      const double allowed =
          (is_coarse(to_word(evidence.stored_as())) ? half_ulp(evidence.stored_as(), wanted) / std::abs(wanted) : 0) +
          4 * 0x1p-22;
      j.pair_error.push_back(static_cast<float>(relative));
      j.pair_ratio.push_back(static_cast<float>(relative / allowed));
      j.worst = std::max(j.worst, relative / allowed);
      left += relative * relative;
    }
    j.residual = std::sqrt(left / static_cast<double>(inv_freq.size()));
    return j;
  };
  double least = 1e300;
  const auto consider = [&](const RopeHypothesis& h, const std::string& mistake, const std::string& detail) {
    const auto j = judged(h);
    if (!j) return;
    if (j->fits() && !f.explained) {
      f.explained = true;
      f.mistake = mistake;
      f.detail = detail;
    } else if (f.explained || j->residual >= least) {
      return;
    }
    least = j->residual;
    f.model = make_model(h);
    f.found = *j;
  };
  for (const RopeHypothesis& meant : question.meant) {
    f.meant = judged(meant);
    consider(meant, "", "");
  }
  for (const RopeHypothesis& meant : question.meant) {
    for (const NamedMistake& m : named_mistakes(meant, question.head_dim, question.others)) {
      if (m.kind == Kind::frequency) consider(m.hypothesis, m.hypothesis.mistake(), m.hypothesis.detail);
    }
  }
  if (!f.explained) {
    for (RopeHypothesis& h : infer_hypotheses(evidence)) {
      if (!question.meant.empty()) name_differences(question.meant.front(), h);
      consider(h, h.mistake(), h.detail);
    }
  }
  if (!f.explained) f.mistake = unexplained;
  if (f.meant && !f.mistake.empty()) {
    for (std::size_t i = 0; i < f.meant->pair_ratio.size(); ++i) {
      if (f.meant->pair_ratio[i] > 1) f.wrong_pairs.push_back(static_cast<std::int64_t>(i));
    }
    if (f.wrong_pairs.size() == f.meant->pair_ratio.size()) f.wrong_pairs.clear();
  }
  f.profile = f.model.rope.profile;
  f.verdict = f.mistake.empty() ? ProbeVerdict::match : ProbeVerdict::mismatch;
  return f;
}

}  // namespace poslab
