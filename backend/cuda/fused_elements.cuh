// Loads and stores of fused kernels: W neighboring elements, as float or bool, of any storage type (ref.cuh).
#pragma once

#include "backend/cuda/ref.cuh"

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

DEV Ref make_ref(uint64_t address, DType type) {
  Ref r;
  r.data = reinterpret_cast<void*>(address);
  r.type = type;
  return r;
}

template <int W>
DEV void read(const Ref& r, int64_t i, float (&v)[W]) {
  if constexpr (W == 4)
    load4(r, i, v);
  else
    v[0] = load<float>(r, i);
}
template <int W>
DEV void read(const Ref& r, int64_t i, bool (&v)[W]) {
  for (int j = 0; j < W; ++j) v[j] = load<bool>(r, i + j);
}
// Sets all of v to element i.
template <class T, int W>
DEV void read_one(const Ref& r, int64_t i, T (&v)[W]) {
  const T x = load<T>(r, i);
  for (int j = 0; j < W; ++j) v[j] = x;
}

template <int W>
DEV void write(const Ref& r, int64_t i, const float (&v)[W]) {
  if constexpr (W == 4)
    store4(r, i, v);
  else
    store(r, i, v[0]);
}
template <int W>
DEV void write(const Ref& r, int64_t i, const bool (&v)[W]) {
  for (int j = 0; j < W; ++j) store(r, i + j, v[j]);
}

// Rounds v as a store and a load would.
DEV float rounded(float v, DType type) {
  if (type == DType::f16) return half_to_float(float_to_half(v));
  if (type == DType::bf16) return bf16_to_float(float_to_bf16(v));
  return v;
}
DEV bool rounded(bool v, DType) { return v; }

}  // namespace amp::cuda
// </device>
