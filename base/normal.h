// The normal distribution, for GELU: one text for CPU, nvcc, kernels generated at run time, and the emulator.
#pragma once

#include "base/math.h"

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp::math {

// The normal distribution at x: the cumulative one, and e^(-x^2 / 2), from which follows the density.
template <class T>
struct Normal {
  T cdf, bell;
};
// cdf: absolute error below 2.5e-7, of which the formula has 1e-8 and rounding near 1 the rest; bell: relative below
// 2e-6 for |x| < 6, from the rounding of the exponent. The tail is e^(-x^2 / 2) t P(t), t = 1 / (1 + 0.39 |x|), after
// Abramowitz and Stegun's 26.2.17 with a degree more, so that terms do not cancel: one exponential and one division
// serve GELU and its gradient, each one instruction on CUDA. The tail of a negative x is not a difference: it keeps its
// digits.
HD inline Normal<float> normal(float x) {
  const float u = multiply_add(std::fabs(x), 0.39f, 1.0f);
#ifdef __CUDA_ARCH__
  const float power = -0.72134752f * x * x;  // of 2: log2(e) / 2
  float t, bell;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(u));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bell) : "f"(power));
#else
  const float t = 1.0f / u, bell = exp(-0.5f * x * x);
#endif
  float p = 0.05384689f;
  p = multiply_add(p, t, -0.25824326f);
  p = multiply_add(p, t, 0.3751677f);
  p = multiply_add(p, t, -0.01663497f);
  p = multiply_add(p, t, 0.19443658f);
  p = multiply_add(p, t, 0.15142706f);
  const float tail = p * t * bell;
  return {x < 0.0f ? tail : 1.0f - tail, bell};
}
HD inline Normal<double> normal(double x) {
  return {0.5 * std::erfc(x * -0.70710678118654752), std::exp(-0.5 * x * x)};
}

}  // namespace amp::math
// </functors>
