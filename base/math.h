// Elementary functions that compilers can vectorize. The versions for float have no branches and library calls; those
// for double call the standard library. Polynomial coefficients were computed for this project by least squares,
// reweighted toward a minimax fit, on the intervals that the comments state.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/dtype.h"

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp::math {

// Returns a b + c. CUDA rounds the result once (FMA), regardless of compiler flags. Elementwise kernels are
// compiled without contraction, so an operator gives the same bits in its own kernel and in a fused kernel.
HD inline float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x; relative error below 2e-7. Overflow gives infinity, NaN stays NaN.
HD inline float exp(float x) {
  const float c = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  // Adding magic = 1.5 * 2^23 rounds to an integer, because floats near magic are 1 apart.
  const float magic = 12582912.0f, shifted = multiply_add(c, 1.44269504f, magic);
  const float n = shifted - magic;  // the nearest integer to c / ln 2
  const float r = multiply_add(n, 2.12194440e-4f, multiply_add(-n, 0.693359375f, c));  // c - n ln 2, in two steps
  float p = 1.9924842e-4f;  // polynomial for (e^r - 1 - r) / r^2 on [-0.35, 0.35]
  p = multiply_add(p, r, 1.39321666e-3f);
  p = multiply_add(p, r, 8.33326206e-3f);
  p = multiply_add(p, r, 4.16664779e-2f);
  p = multiply_add(p, r, 1.66666672e-1f);
  p = multiply_add(p, r, 0.5f);
  const float e = multiply_add(p * r, r, r) + 1.0f;
  // k is n as an integer. It is the difference of the bits, because converting a NaN to an integer
  // is undefined.
  const int32_t k = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(magic);
  const int32_t half = k >> 1;  // 2^k is computed as two factors, so that subnormal results are correct
  const float a = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float b = std::bit_cast<float>(static_cast<uint32_t>(k - half + 127) << 23);
  return e * a * b;  // for a NaN input, e is NaN and so is the product
}
HD inline double exp(double x) { return std::exp(x); }

// tanh; relative error below 3e-7.
HD inline float tanh(float x) {
  const float t = std::fabs(x);
  const float s = x * x;
  float p = -5.63017931e-3f;  // polynomial in x^2 for tanh(x)/x - 1 on [0, 0.63]
  p = multiply_add(p, s, 2.05614977e-2f);
  p = multiply_add(p, s, -5.37102744e-2f);
  p = multiply_add(p, s, 1.33309484e-1f);
  p = multiply_add(p, s, -3.33332479e-1f);
  const float small = multiply_add(x, p * s, x);
  const float big = 1.0f - 2.0f / (exp(2.0f * (t > 10.0f ? 10.0f : t)) + 1.0f);
  return t < 0.63f ? small : std::copysign(big, x);
}
HD inline double tanh(double x) { return std::tanh(x); }

// erf; absolute error below 1e-7.
HD inline float erf(float x) {
  const float t = std::fabs(x);
  const float s = x * x;
  float p = 8.33722952e-5f;  // polynomial in x^2 for erf(x)/x - 1 on [0, 0.93]
  p = multiply_add(p, s, -8.13458115e-4f);
  p = multiply_add(p, s, 5.20025473e-3f);
  p = multiply_add(p, s, -2.68590339e-2f);
  p = multiply_add(p, s, 1.12836868e-1f);
  p = multiply_add(p, s, -3.76126319e-1f);
  p = multiply_add(p, s, 1.28379166e-1f);
  const float small = multiply_add(x, p, x);
  const float u = t > 4.0f ? 4.0f : t;
  float q = -4.17191501e-7f;  // polynomial for log(erfc(x)) on [0.9, 4]
  q = multiply_add(q, u, -1.54891586e-5f);
  q = multiply_add(q, u, 4.02192643e-4f);
  q = multiply_add(q, u, -4.06709919e-3f);
  q = multiply_add(q, u, 2.49143280e-2f);
  q = multiply_add(q, u, -1.08026266e-1f);
  q = multiply_add(q, u, -6.33539438e-1f);
  q = multiply_add(q, u, -1.12943304f);
  q = multiply_add(q, u, 1.59718416e-4f);
  const float big = 1.0f - exp(q);
  return t < 0.93f ? small : std::copysign(big, x);
}
HD inline double erf(double x) { return std::erf(x); }

template <class T>
HD inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

// Returns sigmoid(x). It is for functions that multiply by the result, such as GELU's tanh form. On CUDA it takes two
// instructions of the special function unit. The relative error is below 3e-7; on CUDA it is below 3e-7 + 1e-7 |x|,
// because the exponent is rounded.
HD inline float gate(float x) {
#ifdef __CUDA_ARCH__
  float e, g;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(g) : "f"(1.0f + e));
  return g;
#else
  return sigmoid(x);
#endif
}
HD inline double gate(double x) { return sigmoid(x); }

}  // namespace amp::math
// </functors>
