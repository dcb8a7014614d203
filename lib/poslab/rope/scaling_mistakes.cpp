#include "poslab/rope/scaling_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

bool same_frequencies(const RopeFrequencies& a, const RopeFrequencies& b) {
  return same(a.attention_factor, b.attention_factor) &&
         std::equal(a.inv_freq.begin(), a.inv_freq.end(), b.inv_freq.begin(), b.inv_freq.end(), same);
}

MistakeList::MistakeList(const RopeScaling& meant, FollowedLength seq_len)
    : scaling_(meant), seq_len_(seq_len), frequencies_(rope_frequencies(meant, seq_len)) {}

std::vector<ScalingMistake> scaling_mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  if (!meant.rope_type.is_scaled()) return {};
  if (meant.rope_type->mistakes) return meant.rope_type->mistakes(meant, seq_len);
  MistakeList list(meant, seq_len);
  list.ignored();
  return list.take();
}

void MistakeList::add(ScalingMistake mistake) {
  if (!same_frequencies(mistake.frequencies, frequencies_)) list_.push_back(std::move(mistake));
}

void MistakeList::parameters(std::string word, const std::function<void(RopeScaling&)>& mistake, std::string detail) {
  ScalingMistake out{std::move(word), std::move(detail), scaling_, {}};
  mistake(*out.scaling);
  try {
    out.frequencies = rope_frequencies(*out.scaling, seq_len_);
  } catch (const std::invalid_argument&) {
    return;
  }
  if (out.scaling->rope_type == scaling_.rope_type) out.frequencies.attention_factor = frequencies_.attention_factor;
  add(std::move(out));
}

void MistakeList::ignored(std::string word) {
  if (word.empty()) word = fmt::format("{} scaling ignored", scaling_.rope_type.word());
  parameters(std::move(word), [](RopeScaling& s) { s.rope_type = RopeType(); });
}

void MistakeList::frequencies(std::string word, const std::function<void(std::vector<double>&)>& mistake) {
  ScalingMistake out{std::move(word), {}, std::nullopt, frequencies_};
  try {
    mistake(out.frequencies.inv_freq);
  } catch (const std::invalid_argument&) {
    return;
  }
  add(std::move(out));
}

void MistakeList::attention_factor(std::string word, double value) {
  ScalingMistake out{std::move(word), {}, scaling_, frequencies_};
  out.frequencies.attention_factor = value;
  add(std::move(out));
}

}  // namespace poslab
