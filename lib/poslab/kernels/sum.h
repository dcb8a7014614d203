// Sums and products of vectors in double, in an order that depends on nothing but their length.
#pragma once

#include <span>

#include "poslab/kernels/isa.h"

namespace poslab {

// Element j is added to the j mod 16-th of 16 partial sums in rising order of j; then partial sum j takes in partial
// sum j + 8, j + 4, j + 2 and j + 1. The same bits on every instruction set.
double ordered_sum(std::span<const double> x, Isa isa = active_isa());
double ordered_sum(std::span<const float> x, Isa isa = active_isa());

// The sum of x_j y_j, each product rounded to double (exact for f32); y has x.size() elements.
double ordered_dot(std::span<const double> x, std::span<const double> y, Isa isa = active_isa());
double ordered_dot(std::span<const float> x, std::span<const float> y, Isa isa = active_isa());

}  // namespace poslab
