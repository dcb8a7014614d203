// For Scaling::mistakes: collects the wrong ways to compute a scaling that change its frequencies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "poslab/rope/scaling.h"

namespace poslab {

class MistakeList {
 public:
  MistakeList(const RopeScaling& meant, FollowedLength seq_len);

  const RopeFrequencies& meant() const { return frequencies_; }

  // The frequencies of other parameters. Left out where `mistake` needs a parameter that this scaling does not have;
  // the attention factor stays, since which one an engine takes is a mistake of its own.
  void parameters(std::string word, const std::function<void(RopeScaling&)>& mistake, std::string detail = {});
  // The plain frequencies; no word: "... scaling ignored".
  void ignored(std::string word = {});
  // Frequencies that no parameters give.
  void frequencies(std::string word, const std::function<void(std::vector<double>&)>& mistake);
  void attention_factor(std::string word, double value);

  std::vector<ScalingMistake> take() { return std::move(list_); }

 private:
  void add(ScalingMistake mistake);

  RopeScaling scaling_;
  FollowedLength seq_len_;
  RopeFrequencies frequencies_;
  std::vector<ScalingMistake> list_;
};

// The row's mistakes, or that the scaling was ignored where the row names none; empty for plain frequencies.
std::vector<ScalingMistake> scaling_mistakes(const RopeScaling& meant, FollowedLength seq_len);

// Equal to nine digits, pair by pair.
bool same_frequencies(const RopeFrequencies& a, const RopeFrequencies& b);

}  // namespace poslab
