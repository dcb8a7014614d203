// What a scaling does to each rotary pair against what training showed it: shared by extend and plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/rope_params.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// One pair's frequency before and after scaling, radians per token.
struct Pair {
  double before = 0, after = 0;
  double multiplier() const { return after / before; }
};

struct Stretch {
  std::vector<Pair> pairs;
  double trained_length = 0, target_length = 0;  // tokens

  double turns(const Pair& pair) const;  // within the trained length
  // First position whose angle training did not show: it lies beyond trained_length * before, and the pair made no
  // whole turn in training (one that did has shown every angle). Infinite where there is none.
  double leaves_at(const Pair& pair) const;
  bool covered(const Pair& pair) const { return leaves_at(pair) >= target_length; }
  std::vector<std::int64_t> uncovered_pairs() const;
  std::optional<double> first_uncovered_position() const;
  // Largest difference between the two score curves at distances below trained_length, each the mean over the pairs of
  // cos(distance * inv_freq); every distance up to 63, then 192 evenly spaced in logarithm.
  double score_change() const;
};

// Before: the pairs of training, unscaled, at trained_theta. Throws std::invalid_argument "[rope]
// ..." when the length of pre-training is unknown.
Stretch compare_frequencies(const RopeScaling& scaling, const RopeFrequencies& scaled, double trained_theta,
                            double target_length);

// The mean over the pairs of cos(distance * inv_freq): the score of two equal vectors, 1 at distance 0.
double mean_cosine(const Stretch& stretch, double distance, double Pair::*which);

// The base in effect: that of a scaling which is a new base, else rope_theta.
double effective_theta(const ResolvedRope& rope);

// "0-3, 7, 9-12" for rising indices.
std::string index_ranges(const std::vector<std::int64_t>& indices);

}  // namespace poslab
