// The normal distribution, for GELU. The same source is used on the CPU, by nvcc, in kernels generated at run time, and
// by the emulator. CUDA uses normal(); the CPU, and with it the emulator, uses a formula without division, because
// relative costs differ.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/math.h"

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp::math {

// The cumulative distribution at x, and e^(-x^2 / 2), from which the density follows.
template <class T>
struct Normal {
  T cdf, bell;
};
// cdf: absolute error below 2.5e-7, of which the formula has 1e-8 and rounding near 1 the rest; bell: relative error
// below 2e-6 for |x| < 6, from the rounding of the exponent. The tail is e^(-x^2 / 2) t P(t), t = 1 / (1 + 0.39 |x|):
// formula 26.2.17 of Abramowitz and Stegun with one degree more, so that terms do not cancel. One exponential and one
// division, each one instruction on CUDA, serve GELU and its gradient. For negative x the tail is not a difference, so
// it keeps its digits. On a CPU this function only serves tests.
HD inline Normal<float> normal(float x) {
  const float u = multiply_add(std::fabs(x), 0.39f, 1.0f);
#ifdef __CUDA_ARCH__
  const float power = -0.72134752f * x * x;  // exponent of 2: log2(e) / 2
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
// 2^x for -127 <= x < 128 (0 at -127); relative error below 2e-7 from -126 on.
inline float power_of_two(float x) {
  const float magic = 12582912.0f, shifted = x + magic;  // 1.5 2^23: ulps are whole numbers
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

// normal_cdf(x) is normal(x).cdf. gelu_slope(x) is the derivative of x cdf(x), GELU: cdf(x) + x bell / sqrt(2 pi). On a
// CPU, where a division costs as much as a dozen multiplications, both avoid division: the logarithm of the tail is a
// polynomial, and so is the derivative's tail divided by the bell. Absolute errors below 1.5e-7 and 2.5e-7; the tail's
// relative error is within 5e-6 down to 1e-9 (x = -6), and the tail goes to 0.
HD inline float normal_cdf(float x) {
#ifdef __CUDA_ARCH__
  return normal(x).cdf;
#else
  const float u = std::fabs(x);
  float p = -1.81341903e-8f;  // log2(cdf(-u)) on [0, 6], within 2e-8 / cdf(-u), at most 1e-6
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
  const float u = std::fabs(x), v = u > 14.0f ? 14.0f : u;  // for v = 14 the bell is 0
  const float power = -0.72134752f * v * v;                 // exponent of 2: log2(e) / 2
  float p = 1.25365374e-8f;                                 // cdf(-v) e^(v^2 / 2) - v / sqrt(2 pi) on [0, 6]
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
