// Makes an elementwise kernel from a functor: a struct with a templated call operator. CUDA kernels use it too.
//
//   struct Softplus : Unary { template <class T> HD T operator()(T x) const { return ...; } };
//
// The shared code handles broadcasting, 16-bit storage (chunks are converted to float and back) and threads. It is
// compiled once (elementwise.cc); a functor adds only its inner loops. A functor with parameters has a constructor from
// the node's Attrs.
#pragma once

#include <array>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "backend/functors.h"
#include "backend/kernel.h"
#include "backend/parallel.h"
#include "base/simd.h"

namespace amp {

namespace elementwise_detail {

constexpr int64_t kChunk = 1024;  // elements converted per chunk

// The iteration space of N broadcast inputs: leading dims as (extent, stride per input), and one inner run of elements,
// along which each input advances by 0 or 1.
template <size_t N>
struct Space {
  int64_t inner = 1, outer = 1;
  std::array<int64_t, N> inner_stride{};  // 0 or 1 for each input
  std::vector<int64_t> extent;            // outer dims, outermost first
  std::vector<std::array<int64_t, N>> stride;

  std::array<int64_t, N> offsets(int64_t row) const {
    std::array<int64_t, N> o{};
    for (size_t d = extent.size(); d-- > 0;) {
      const int64_t i = row % extent[d];
      row /= extent[d];
      for (size_t k = 0; k < N; ++k) o[k] += i * stride[d][k];
    }
    return o;
  }
};

template <size_t N>
Space<N> make_space(const Dims& out, const std::array<const Dims*, N>& in) {
  // Strides per dim; then adjacent dims that advance together in every input are merged.
  std::vector<int64_t> extent;
  std::vector<std::array<int64_t, N>> stride;
  std::array<int64_t, N> running;
  running.fill(1);
  for (size_t d = out.size(); d-- > 0;) {
    std::array<int64_t, N> s{};
    for (size_t k = 0; k < N; ++k) {
      const size_t shift = out.size() - in[k]->size();
      const int64_t n = d < shift ? 1 : (*in[k])[d - shift];
      s[k] = n == 1 ? 0 : running[k];
      running[k] *= n;
    }
    if (out[d] == 1) continue;
    bool merge = !extent.empty();
    for (size_t k = 0; merge && k < N; ++k) merge = s[k] == stride.front()[k] * extent.front();
    if (merge) {
      extent.front() *= out[d];
    } else {
      extent.insert(extent.begin(), out[d]);
      stride.insert(stride.begin(), s);
    }
  }
  Space<N> space;
  if (extent.empty()) return space;
  space.inner = extent.back();
  space.inner_stride = stride.back();
  extent.pop_back();
  stride.pop_back();
  for (const int64_t e : extent) space.outer *= e;
  space.extent = std::move(extent);
  space.stride = std::move(stride);
  return space;
}

template <class F, class R, class T, unsigned Mask, size_t... I>
AMP_INLINE inline void run_masked(const F& f, const std::array<const T*, sizeof...(I)>& x, R* y, int64_t n,
                                  std::index_sequence<I...>) {
  const F g = f;  // local copy: the compiler can assume that stores to y do not change it
  const std::array<const T*, sizeof...(I)> p = x;
  for (int64_t i = 0; i < n; ++i) y[i] = g(p[I][(Mask >> I & 1u) ? i : 0]...);
}

template <class F, class R, class T, size_t N>
AMP_INLINE inline void run_row(const F& f, const std::array<const T*, N>& x, unsigned mask, R* y, int64_t n) {
  constexpr auto seq = std::make_index_sequence<N>{};
  if constexpr (N == 1) {
    if (mask == 1) return run_masked<F, R, T, 1>(f, x, y, n, seq);
    return run_masked<F, R, T, 0>(f, x, y, n, seq);
  } else if constexpr (N == 2) {
    switch (mask) {
      case 3:
        return run_masked<F, R, T, 3>(f, x, y, n, seq);
      case 1:
        return run_masked<F, R, T, 1>(f, x, y, n, seq);
      case 2:
        return run_masked<F, R, T, 2>(f, x, y, n, seq);
      default:
        return run_masked<F, R, T, 0>(f, x, y, n, seq);
    }
  } else {
    if (mask == 7) return run_masked<F, R, T, 7>(f, x, y, n, seq);
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[0][mask & 1 ? i : 0], x[1][mask & 2 ? i : 0], x[2][mask & 4 ? i : 0]);
  }
}

// Computes n results of one row from operands of type T. `functor` points to the functor's bytes (unused for empty
// functors). Bit k of mask is set if operand k advances along the row. Only floating-point rows are compiled for each
// instruction set.
template <class F, class T>
void run_packed(const void* functor, const void* const* x, unsigned mask, void* y, int64_t n) {
  using R = decltype(functor_result<F, T>(std::make_index_sequence<F::arity>{}));
  alignas(F) unsigned char bytes[sizeof(F)] = {};
  if constexpr (!std::is_empty_v<F>) std::memcpy(bytes, functor, sizeof(F));
  const F& f = *std::launder(reinterpret_cast<const F*>(bytes));
  std::array<const T*, F::arity> p;
  for (size_t k = 0; k < F::arity; ++k) p[k] = static_cast<const T*>(x[k]);
  const auto row = [&]() AMP_INLINE { run_row<F, R, T, F::arity>(f, p, mask, static_cast<R*>(y), n); };
  if constexpr (std::is_same_v<T, float> && requires { F::wide; })
    simd_wide(row);
  else if constexpr (std::is_same_v<T, float>)
    simd(row);
  else
    row();
}

// Returns n elements of t from `offset` on as T: a pointer into t if t is stored as T, otherwise converted copies in
// `scratch`.
template <class T>
const T* load(const Tensor& t, int64_t offset, int64_t n, T* scratch) {
  if (t.dtype == DTypeOf<T>::value) return static_cast<const T*>(t.data) + offset;
  convert(t.dtype, static_cast<const char*>(t.data) + offset * size_of(t.dtype), DTypeOf<T>::value, scratch, n);
  return scratch;
}

// The inner loop of a functor for one operand type, type-erased.
struct RowFunctor {
  DType operand, result;
  void (*run)(const void* functor, const void* const* x, unsigned mask, void* y, int64_t n) = nullptr;
  alignas(16) std::array<unsigned char, 64> functor{};
};

// Adds broadcasting, storage types and threads to a row functor. N: operands, 1 to 3.
template <size_t N>
Kernel row_kernel(const RowFunctor& row, const KernelArgs& a);  // see elementwise.cc

template <class F, class T>
Kernel typed(const KernelArgs& a) {
  using R = decltype(functor_result<F, T>(std::make_index_sequence<F::arity>{}));
  static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= sizeof(RowFunctor::functor) && alignof(F) <= 16);
  RowFunctor row{DTypeOf<T>::value, DTypeOf<R>::value, run_packed<F, T>, {}};
  if constexpr (std::is_constructible_v<F, const Attrs&>) {
    const F f(a.attrs());
    std::memcpy(row.functor.data(), &f, sizeof f);
  }
  return row_kernel<F::arity>(row, a);
}

// Calls make(T{}, a), where T is the type in which functor F computes. T depends on the type of input 0.
template <class F, class Make>
Kernel dispatch(const KernelArgs& a, Make make) {
  using D = typename F::Domain;
  const DType t = a.in.at(0).dtype;
  if constexpr (D::integers) {
    if (t == DType::i64) return make(int64_t{}, a);
    if (t == DType::i32) return make(int32_t{}, a);
    if (t == DType::u8) return make(uint8_t{}, a);
    if (t == DType::i8) return make(int8_t{}, a);
    if (t == DType::i16) return make(int16_t{}, a);
    if (t == DType::u16) return make(uint16_t{}, a);
    if (t == DType::u32) return make(uint32_t{}, a);
    if (t == DType::u64) return make(uint64_t{}, a);
  }
  if constexpr (D::booleans) {
    if (t == DType::boolean) return make(bool{}, a);
  }
  if constexpr (!std::is_same_v<D, BooleansOnly>) {
    if (is_float(t)) return in_double(a) ? make(double{}, a) : make(float{}, a);
  }
  fail(Exit::unsupported, "E_DTYPE", cat(a.node.op->name, " has no kernel for ", name_of(t)));
}
}  // namespace elementwise_detail

// Returns the kernel of functor F. Inputs broadcast to the output's dims.
template <class F>
Kernel elementwise(const KernelArgs& a) {
  return elementwise_detail::dispatch<F>(
      a, [](auto zero, const KernelArgs& args) { return elementwise_detail::typed<F, decltype(zero)>(args); });
}

}  // namespace amp
