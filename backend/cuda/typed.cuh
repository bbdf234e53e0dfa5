// Refs with a compile-time type, for loops in which the branch per element of a Ref (ref.cuh) is measurable.
#pragma once

#include <initializer_list>

#include "backend/cuda/ref.cuh"

namespace amp::cuda {

template <DType type>
struct TypedRef {
  using Stored = std::conditional_t<type == DType::f32, float, uint16_t>;
  Stored* data = nullptr;

  TypedRef() = default;
  TypedRef(const Tensor& t) : data(static_cast<Stored*>(t.data)) {}  // NOLINT: as Ref
  HD explicit operator bool() const { return data != nullptr; }
  // Converts to a Ref whose type is a constant, so that the compiler removes the branches on it.
  DEV operator Ref() const {
    Ref r;
    r.data = data;
    r.type = type;
    return r;
  }
};

template <class T, DType type>
DEV T load(const TypedRef<type>& r, int64_t i) {
  if constexpr (type == DType::f32) return static_cast<T>(r.data[i]);
  if constexpr (type == DType::f16) return static_cast<T>(half_to_float(r.data[i]));
  if constexpr (type == DType::bf16) return static_cast<T>(bf16_to_float(r.data[i]));
}
template <DType type>
DEV void store(const TypedRef<type>& r, int64_t i, float v) {
  if constexpr (type == DType::f32) r.data[i] = v;
  if constexpr (type == DType::f16) r.data[i] = float_to_half(v);
  if constexpr (type == DType::bf16) r.data[i] = float_to_bf16(v);
}

// Returns f(TypedRef<t>()) if all tensors with data have the same type t, otherwise f(Ref()).
template <class F>
Kernel by_type(std::initializer_list<Tensor> tensors, F f) {
  const DType t = tensors.begin()->dtype;
  for (const Tensor& other : tensors) {
    if (other.data && other.dtype != t) return f(Ref());
  }
  switch (t) {
    case DType::f32:
      return f(TypedRef<DType::f32>());
    case DType::f16:
      return f(TypedRef<DType::f16>());
    case DType::bf16:
      return f(TypedRef<DType::bf16>());
    default:
      return f(Ref());
  }
}

}  // namespace amp::cuda
