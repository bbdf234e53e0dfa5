// The beginning of every generated kernel. NVRTC has neither the headers of the C++ library nor those of the toolkit.
// This file defines the few parts of them that the functors use. Other compilers, for the emulator's tests, include the
// headers.
#pragma once

// <device>: cmake/functors.cmake copies this section into generated kernels
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define HD __device__
#define AMP_INLINE __forceinline__

namespace std {
template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  HD constexpr operator T() const { return v; }
};
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = !is_floating_point_v<T>;
template <class T>
inline constexpr bool is_signed_v = T(-1) < T(0);
template <class T>
struct numeric_limits {
  static HD T infinity() { return static_cast<T>(__int_as_float(0x7f800000)); }
};
template <class To, class From>
HD To bit_cast(const From& v) {
  return __builtin_bit_cast(To, v);
}
HD inline float fabs(float x) { return ::fabsf(x); }
HD inline float copysign(float x, float y) { return ::copysignf(x, y); }
HD inline float sqrt(float x) { return ::sqrtf(x); }
HD inline float exp(float x) { return ::expf(x); }
HD inline float log(float x) { return ::logf(x); }
HD inline float log1p(float x) { return ::log1pf(x); }
HD inline float pow(float x, float y) { return ::powf(x, y); }
HD inline float fmod(float x, float y) { return ::fmodf(x, y); }
HD inline float sin(float x) { return ::sinf(x); }
HD inline float cos(float x) { return ::cosf(x); }
HD inline float tan(float x) { return ::tanf(x); }
HD inline float asin(float x) { return ::asinf(x); }
HD inline float acos(float x) { return ::acosf(x); }
HD inline float atan(float x) { return ::atanf(x); }
HD inline float sinh(float x) { return ::sinhf(x); }
HD inline float cosh(float x) { return ::coshf(x); }
HD inline float asinh(float x) { return ::asinhf(x); }
HD inline float acosh(float x) { return ::acoshf(x); }
HD inline float atanh(float x) { return ::atanhf(x); }
HD inline float floor(float x) { return ::floorf(x); }
HD inline float ceil(float x) { return ::ceilf(x); }
HD inline float nearbyint(float x) { return ::nearbyintf(x); }
HD inline double exp(double x) { return ::exp(x); }
HD inline double tanh(double x) { return ::tanh(x); }
HD inline double erf(double x) { return ::erf(x); }
HD inline double erfc(double x) { return ::erfc(x); }
}  // namespace std
#else
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cuda/emulator.h"
#include "base/dtype.h"
#include "base/simd.h"
#endif

#ifdef __CUDACC__
#define DEV __device__ __forceinline__
#define ROLLED _Pragma("unroll 1")
#else
#define DEV inline
#define ROLLED
#endif

namespace amp {
struct Tensor {
  void* data;
  DType dtype;
};
struct RunState {
  uint64_t seed;
  int64_t step, samples_before;
};
// Replaces the Attrs that functors are constructed from. The host reads a functor's parameters and passes the functor's
// bytes, so kernels read no attributes.
struct Attrs {
  double f(const char*, double v) const { return v; }
  long long i(const char*, long long v) const { return v; }
};
template <int N>
struct Bytes {
  unsigned char b[N];
};

}  // namespace amp
// </device>
