// The normal distribution, for GELU. The same source is compiled for the CPU, by nvcc, in generated kernels, and for
// the emulator. CUDA uses normal(). The CPU and the emulator avoid its division, which is slow on CPUs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/math.h"

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp::math {

// The normal distribution at x. cdf: the cumulative distribution. bell: e^(-x^2 / 2), sqrt(2 pi) times the density.
template <class T>
struct Normal {
  T cdf, bell;
};
// Computes cdf with an absolute error below 2.5e-7 (1e-8 from the formula, the rest from rounding near 1), and bell
// with a relative error below 2e-6 for |x| < 6 (from the rounding of the exponent). The tail cdf(-|x|) is e^(-x^2 / 2)
// t P(t) with t = 1 / (1 + 0.39 |x|). This is formula 26.2.17 of Abramowitz and Stegun with a polynomial P of one
// degree more, whose terms do not cancel. One exponential and one division, each one instruction on CUDA, serve GELU
// and its gradient. For negative x the cdf is the tail itself and not a difference, so no digits are lost. On a CPU
// only tests call this function.
HD inline Normal<float> normal(float x) {
  const float u = multiply_add(std::fabs(x), 0.39f, 1.0f);
#ifdef __CUDA_ARCH__
  const float power = -0.72134752f * x * x;  // log2(e^(-x^2 / 2))
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

#ifndef __CUDA_ARCH__
// Returns 2^x for -127 <= x < 128 (0 at -127). The relative error is below 2e-7 for x >= -126.
inline float power_of_two(float x) {
  // Adding magic = 1.5 * 2^23 rounds to an integer, because floats near magic are 1 apart.
  const float magic = 12582912.0f, shifted = x + magic;
  const float f = x - (shifted - magic);
  float p = 1.53458064e-4f;
  p = multiply_add(p, f, 1.33999312e-3f);
  p = multiply_add(p, f, 9.61848898e-3f);
  p = multiply_add(p, f, 5.55032878e-2f);
  p = multiply_add(p, f, 0.240226469f);
  p = multiply_add(p, f, 0.693147206f);
  p = multiply_add(p, f, 1.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
}
#endif

// normal_cdf(x) is normal(x).cdf. gelu_slope(x) is the derivative of GELU: cdf(x) + x e^(-x^2 / 2) / sqrt(2 pi). On a
// CPU a division costs as much as a dozen multiplications, so both functions avoid it there. normal_cdf() computes the
// logarithm of the tail cdf(-|x|) as a polynomial, gelu_slope() the derivative's tail divided by e^(-x^2 / 2).
// Absolute errors are below 1.5e-7 (cdf) and 2.5e-7 (slope). The cdf's tail has a relative error of at most 5e-6 while
// it is above 1e-9 (x > -6); then it goes to 0.
HD inline float normal_cdf(float x) {
#ifdef __CUDA_ARCH__
  return normal(x).cdf;
#else
  const float u = std::fabs(x);
  // Polynomial in u for log2(cdf(-u)) on [0, 6]; error at most 2e-8 / cdf(-u), and at most 1e-6.
  float p = -1.81341903e-8f;
  p = multiply_add(p, u, 5.85515068e-7f);
  p = multiply_add(p, u, -8.06053704e-6f);
  p = multiply_add(p, u, 5.97719522e-5f);
  p = multiply_add(p, u, -2.23588523e-4f);
  p = multiply_add(p, u, -1.12158054e-4f);
  p = multiply_add(p, u, 7.07716836e-3f);
  p = multiply_add(p, u, -5.25237044e-2f);
  p = multiply_add(p, u, -0.459195775f);
  p = multiply_add(p, u, -1.15110698f);
  p = multiply_add(p, u, -0.999999954f);
  const float tail = power_of_two(p < -127.0f ? -127.0f : p);
  return x < 0.0f ? tail : 1.0f - tail;
#endif
}
HD inline float gelu_slope(float x) {
#ifdef __CUDA_ARCH__
  const Normal<float> n = normal(x);
  return n.cdf + x * 0.398942280f * n.bell;
#else
  const float u = std::fabs(x), v = u > 14.0f ? 14.0f : u;  // at v = 14, e^(-v^2 / 2) is already 0 in fp32
  const float power = -0.72134752f * v * v;                 // log2(e^(-v^2 / 2))
  float p = 1.25365374e-8f;                                 // polynomial in v for gelu_slope(-v) e^(v^2 / 2) on [0, 6]
  p = multiply_add(p, v, -4.62763287e-7f);
  p = multiply_add(p, v, 7.64343815e-6f);
  p = multiply_add(p, v, -7.51155370e-5f);
  p = multiply_add(p, v, 4.94718376e-4f);
  p = multiply_add(p, v, -2.34754449e-3f);
  p = multiply_add(p, v, 8.50579999e-3f);
  p = multiply_add(p, v, -2.48521928e-2f);
  p = multiply_add(p, v, 6.14636329e-2f);
  p = multiply_add(p, v, -0.132613252f);
  p = multiply_add(p, v, 0.249932526f);
  p = multiply_add(p, v, -0.797879720f);
  p = multiply_add(p, v, 0.499999943f);
  const float tail = p * power_of_two(power < -127.0f ? -127.0f : power);
  return x < 0.0f ? tail : 1.0f - tail;
#endif
}
HD inline double normal_cdf(double x) { return normal(x).cdf; }
HD inline double gelu_slope(double x) {
  const Normal<double> n = normal(x);
  return n.cdf + x * 0.39894228040143268 * n.bell;
}

}  // namespace amp::math
// </functors>
