// Elementwise kernels from one functor. A functor is a small struct with a templated call operator, shared with CUDA:
//
//   struct Softplus : Unary { template <class T> HD T operator()(T x) const { return ...; } };
//
// The harness owns broadcasting, 16-bit storage (chunks are converted to float and back) and threads. A functor may
// take its parameters from the node: a constructor from Attrs.
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

constexpr int64_t kChunk = 1024;  // elements converted at a time

// The iteration space of N broadcast inputs: leading dims as (extent, stride per input), one inner run.
template <size_t N>
struct Space {
  int64_t inner = 1, outer = 1;
  std::array<int64_t, N> inner_stride{};  // 0 or 1
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
  // Per dim strides, then merge neighbours that advance together in every input.
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
  const F g = f;  // copies: nothing that y could alias is read again in the loop
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

// A row by a functor given by its bytes (backend/functors.h).
template <class F>
void run_packed(const void* functor, const void* const* x, unsigned mask, void* y, int64_t n) {
  using T = FunctorOperand<F>;
  using R = FunctorResult<F>;
  alignas(F) unsigned char bytes[sizeof(F)] = {};
  if constexpr (!std::is_empty_v<F>) std::memcpy(bytes, functor, sizeof(F));
  const F& f = *std::launder(reinterpret_cast<const F*>(bytes));
  std::array<const T*, F::arity> p;
  for (size_t k = 0; k < F::arity; ++k) p[k] = static_cast<const T*>(x[k]);
  simd([&]() AMP_INLINE { run_row<F, R, T, F::arity>(f, p, mask, static_cast<R*>(y), n); });
}

// n elements from t at element offset: in place when the type is T, else converted into scratch.
template <class T>
const T* load(const Tensor& t, int64_t offset, int64_t n, T* scratch) {
  if (t.dtype == DTypeOf<T>::value) return static_cast<const T*>(t.data) + offset;
  convert(t.dtype, static_cast<const char*>(t.data) + offset * size_of(t.dtype), DTypeOf<T>::value, scratch, n);
  return scratch;
}

template <class F, class T, class R>
Kernel make_kernel(const F& f, const KernelArgs& a) {
  constexpr size_t N = F::arity;
  std::array<const Dims*, N> dims;
  bool direct = a.out[0].dtype == DTypeOf<R>::value;
  std::array<Tensor, N> in;
  for (size_t k = 0; k < N; ++k) {
    in[k] = a.in.at(k);
    dims[k] = &in[k].dims;
    direct = direct && in[k].dtype == DTypeOf<T>::value;
  }
  const Space<N> space = make_space<N>(a.out[0].dims, dims);
  unsigned mask = 0;
  for (size_t k = 0; k < N; ++k) mask |= space.inner_stride[k] ? 1u << k : 0u;
  if (space.inner == 1) mask = 0;
  const Tensor out = a.out[0];
  if (out.numel() == 0) return [] {};

  // One piece: elements [begin, end) of one outer row.
  const auto piece = [=](int64_t row, int64_t begin, int64_t end) {
    const std::array<int64_t, N> offset = space.offsets(row);
    const int64_t y_offset = row * space.inner;
    if (direct) {
      std::array<const T*, N> x;
      for (size_t k = 0; k < N; ++k)
        x[k] = static_cast<const T*>(in[k].data) + offset[k] + begin * space.inner_stride[k];
      R* y = static_cast<R*>(out.data) + y_offset + begin;
      simd([&]() AMP_INLINE { run_row<F, R, T, N>(f, x, mask, y, end - begin); });
      return;
    }
    alignas(64) T scratch[N][kChunk];
    alignas(64) R result[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      std::array<const T*, N> x;
      for (size_t k = 0; k < N; ++k) {
        x[k] = load<T>(in[k], offset[k] + at * space.inner_stride[k], space.inner_stride[k] ? n : 1, scratch[k]);
      }
      const bool store_direct = out.dtype == DTypeOf<R>::value;
      R* y = store_direct ? static_cast<R*>(out.data) + y_offset + at : result;
      simd([&]() AMP_INLINE { run_row<F, R, T, N>(f, x, mask, y, n); });
      if (!store_direct) {
        convert(DTypeOf<R>::value, y, out.dtype, static_cast<char*>(out.data) + (y_offset + at) * size_of(out.dtype),
                n);
      }
    }
  };
  constexpr int64_t kGrain = 16384;
  if (space.outer == 1) {
    return [=] { parallel_ranges(space.inner, kGrain, [&](int64_t b, int64_t e) { piece(0, b, e); }); };
  }
  return [=] {
    parallel_ranges(space.outer, kGrain / space.inner + 1, [&](int64_t b, int64_t e) {
      for (int64_t row = b; row < e; ++row) piece(row, 0, space.inner);
    });
  };
}

template <class F, class T>
Kernel typed(const KernelArgs& a) {
  const F f = [&] {
    if constexpr (std::is_constructible_v<F, const Attrs&>)
      return F(a.attrs());
    else
      return F{};
  }();
  if constexpr (F::arity == 1) {
    return make_kernel<F, T, decltype(f(T{}))>(f, a);
  } else if constexpr (F::arity == 2) {
    return make_kernel<F, T, decltype(f(T{}, T{}))>(f, a);
  } else {
    return make_kernel<F, T, decltype(f(T{}, T{}, T{}))>(f, a);
  }
}

}  // namespace elementwise_detail

namespace elementwise_detail {
// make(T{}, a) for the type that functor F computes in, by the type of input 0.
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

// The kernel of a functor: inputs broadcast to the output's dims.
template <class F>
Kernel elementwise(const KernelArgs& a) {
  return elementwise_detail::dispatch<F>(
      a, [](auto zero, const KernelArgs& args) { return elementwise_detail::typed<F, decltype(zero)>(args); });
}

}  // namespace amp
