// Elementwise kernels from the functors that the CPU kernels are made of (backend/elementwise.h): inputs broadcast to
// the output's dims, any floating storage but fp64, arithmetic in fp32 or in the integers' own type.
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

// The output is walked in groups of kWidth neighbours of one inner row.
template <class F, class T, class R, int kWidth>
struct Elementwise {
  static constexpr int N = static_cast<int>(F::arity);
  F f;
  Ref in[N];
  Ref out;
  int64_t inner = 1, groups = 0;  // inner: elements of a row
  Divisor per_row;                // groups of one
  int step[N] = {};               // 0: the row reads one element
  Axes rows[N];                   // where input k's row begins

  DEV void operator()() const {
    for (int64_t g = global_index(); g < groups; g += global_threads()) {
      int64_t row = g;
      const int64_t column = per_row.take(row) * kWidth;
      T x[kWidth][N];
      for (int k = 0; k < N; ++k) {
        const int64_t base = rows[k].rank ? rows[k].offset(row) : 0;
        if constexpr (kWidth == 4) {
          T four[4];
          if (step[k]) {
            load_some(in[k], base + column, four);
          } else {
            float one[1];
            load_some(in[k], base, one);
            four[0] = four[1] = four[2] = four[3] = one[0];
          }
          for (int j = 0; j < 4; ++j) x[j][k] = four[j];
        } else {
          x[0][k] = load<T>(in[k], base + (step[k] ? column : 0));
        }
      }
      R y[kWidth];
      for (int j = 0; j < kWidth; ++j) y[j] = apply(f, x[j], std::make_index_sequence<static_cast<size_t>(N)>{});
      if constexpr (kWidth == 4) {
        store_some(out, row * inner + column, y);
      } else {
        store(out, row * inner + column, y[0]);
      }
    }
  }
};

namespace elementwise_cuda_detail {

template <class F, class T, class R>
Kernel make(const F& f, const KernelArgs& a) {
  constexpr size_t N = F::arity;
  CudaDevice& device = device_of(a);
  std::array<const Dims*, N> dims;
  for (size_t k = 0; k < N; ++k) dims[k] = &a.in.at(k).dims;
  const auto space = elementwise_detail::make_space<N>(a.out[0].dims, dims);
  const auto fill = [&](auto& kernel, int width) {
    for (size_t k = 0; k < N; ++k) {
      kernel.in[k] = Ref(a.in[k]);
      kernel.step[k] = space.inner_stride[k] ? 1 : 0;
      Dims strides;
      for (const auto& s : space.stride) strides.push_back(s[k]);
      kernel.rows[k] = make_axes(space.extent, strides);
    }
    kernel.out = Ref(a.out[0]);
    kernel.inner = space.inner;
    kernel.groups = a.out[0].numel() / width;
    kernel.per_row = Divisor(space.inner / width);
  };
  if (a.out[0].numel() == 0) return [] {};
  // Whole groups of four need rows that begin at multiples of four in every input that is walked, and are of fp32 or 16
  // bits: other types would only make the kernel long.
  const auto usual = [](const Tensor& t) { return t.dtype == DType::f32 || is_low(t.dtype); };
  bool four = std::is_same_v<T, float> && std::is_same_v<R, float> && space.inner % 4 == 0 && usual(a.out[0]) &&
              std::all_of(a.in.begin(), a.in.end(), usual);
  for (size_t k = 0; four && k < N; ++k) {
    if (!space.inner_stride[k]) continue;
    for (const auto& s : space.stride) four = four && s[k] % 4 == 0;
  }
  if constexpr (std::is_same_v<T, float> && std::is_same_v<R, float>) {
    if (four) {
      Elementwise<F, T, R, 4> kernel{f};
      fill(kernel, 4);
      return [&device, kernel] { launch(device, loop_grid(device, kernel.groups), kernel); };
    }
  }
  Elementwise<F, T, R, 1> kernel{f};
  fill(kernel, 1);
  return [&device, kernel] { launch(device, loop_grid(device, kernel.groups), kernel); };
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
