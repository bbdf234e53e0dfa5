// Elementwise kernels made of the functors of the CPU kernels (backend/elementwise.h). Inputs are broadcast to the
// output's dims. Tensors may have any type except fp64. Arithmetic is in fp32, or in the type of the integers.
#pragma once

#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/elementwise.h"

namespace amp::cuda {

template <class F, class T, size_t... I>
DEV auto apply(const F& f, const T* x, std::index_sequence<I...>) {
  return f(x[I]...);
}

// Describes how a kernel with N inputs visits their elements, independent of what it computes. A thread visits one
// group of neighboring elements of an output row at a time.
template <int N>
struct Walk {
  Ref in[N];
  Ref out;
  int64_t inner = 1, groups = 0;  // inner: elements of a row
  Divisor per_row;                // groups of one row
  int step[N] = {};               // step of input k along a row; 0: all elements of a row read the same element
  Axes rows[N];                   // offset of each row in input k
};

template <class F, class T, class R, int kWidth>
struct Elementwise {
  static constexpr int max_threads = 256;  // the largest block that loop_grid() launches
  static constexpr int min_blocks = 6;     // limits a thread to 40 registers
  static constexpr int N = static_cast<int>(F::arity);
  F f;
  Walk<N> walk;

  DEV void operator()() const {
    for (int64_t g = global_index(); g < walk.groups; g += global_threads()) {
      int64_t row = g;
      const int64_t column = walk.per_row.take(row) * kWidth;
      T x[kWidth][N];
      unrolled<N>([&](auto k) {
        const int64_t base = walk.rows[k].rank ? walk.rows[k].offset(row) : 0;
        if constexpr (kWidth == 4) {
          T four[4];
          if (walk.step[k]) {
            load_some(walk.in[k], base + column, four);
          } else {
            float one[1];
            load_some(walk.in[k], base, one);
            four[0] = four[1] = four[2] = four[3] = one[0];
          }
          for (int j = 0; j < 4; ++j) x[j][k] = four[j];
        } else {
          x[0][k] = load<T>(walk.in[k], base + (walk.step[k] ? column : 0));
        }
      });
      R y[kWidth];
      for (int j = 0; j < kWidth; ++j) y[j] = apply(f, x[j], std::make_index_sequence<static_cast<size_t>(N)>{});
      if constexpr (kWidth == 4) {
        store_some(walk.out, row * walk.inner + column, y);
      } else {
        store(walk.out, row * walk.inner + column, y[0]);
      }
    }
  }
};

namespace elementwise_cuda_detail {

template <size_t N>
using Space = amp::elementwise_detail::Space<N>;

template <size_t N>
Space<N> space_of(const KernelArgs& a) {
  std::array<const Dims*, N> dims;
  for (size_t k = 0; k < N; ++k) dims[k] = &a.in.at(k).dims;
  return amp::elementwise_detail::make_space<N>(a.out[0].dims, dims);
}

// Returns whether a thread may take groups of four elements. Rows must begin at multiples of four in every input that
// is not broadcast along the row. The types must be fp32 or 16 bits wide, because other types would only make the
// kernel longer.
template <size_t N>
bool takes_four(const KernelArgs& a, const Space<N>& space) {
  const auto usual = [](const Tensor& t) { return t.dtype == DType::f32 || is_low(t.dtype); };
  bool four = space.inner % 4 == 0 && usual(a.out[0]) && std::all_of(a.in.begin(), a.in.end(), usual);
  for (size_t k = 0; four && k < N; ++k) {
    if (!space.inner_stride[k]) continue;
    for (const auto& s : space.stride) four = four && s[k] % 4 == 0;
  }
  return four;
}

template <size_t N>
Walk<static_cast<int>(N)> walk_of(const KernelArgs& a, const Space<N>& space, int width) {
  Walk<static_cast<int>(N)> walk;
  for (size_t k = 0; k < N; ++k) {
    walk.in[k] = Ref(a.in[k]);
    walk.step[k] = space.inner_stride[k] ? 1 : 0;
    Dims strides;
    for (const auto& s : space.stride) strides.push_back(s[k]);
    walk.rows[k] = make_axes(space.extent, strides);
  }
  walk.out = Ref(a.out[0]);
  walk.inner = space.inner;
  walk.groups = a.out[0].numel() / width;
  walk.per_row = Divisor(space.inner / width);
  return walk;
}

template <class F, class T, class R, int kWidth>
Kernel loop(CudaDevice& device, const F& f, const Walk<static_cast<int>(F::arity)>& walk) {
  return [&device, kernel = Elementwise<F, T, R, kWidth>{f, walk}] {
    launch(device, loop_grid(device, kernel.walk.groups), kernel);
  };
}

template <class F, class T, class R>
Kernel make(const F& f, const KernelArgs& a) {
  CudaDevice& device = device_of(a);
  const auto space = space_of<F::arity>(a);
  if (a.out[0].numel() == 0) return [] {};
  if constexpr (std::is_same_v<T, float> && std::is_same_v<R, float>) {
    if (takes_four(a, space)) return loop<F, T, R, 4>(device, f, walk_of(a, space, 4));
  }
  return loop<F, T, R, 1>(device, f, walk_of(a, space, 1));
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
    return make<F, T, decltype(f(T{}))>(f, a);
  } else if constexpr (F::arity == 2) {
    return make<F, T, decltype(f(T{}, T{}))>(f, a);
  } else {
    return make<F, T, decltype(f(T{}, T{}, T{}))>(f, a);
  }
}

}  // namespace elementwise_cuda_detail

template <class F>
Kernel elementwise(const KernelArgs& a) {
  using elementwise_cuda_detail::typed;
  return amp::elementwise_detail::dispatch<F>(a, [](auto zero, const KernelArgs& args) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>)
      no_fp64(args);
    else
      return typed<F, T>(args);
  });
}

}  // namespace amp::cuda
