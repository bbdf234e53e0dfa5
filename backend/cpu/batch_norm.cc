#include "backend/cpu/batch_norm.h"

#include <cmath>

#include "base/simd.h"

namespace amp {

namespace {

// x is (N, C, inner).
struct Layout {
  int64_t n, c, inner;
  explicit Layout(const Dims& d) : n(d.at(0)), c(d.at(1)), inner(1) {
    for (size_t i = 2; i < d.size(); ++i) inner *= d[i];
  }
  int64_t count() const { return n * inner; }
  double divisor() const { return static_cast<double>(std::max<int64_t>(1, count())); }  // statistics of nothing are 0
};

// Channels [begin, end) on one thread: single channels, or blocks of neighbours when a channel is a column.
template <class Fn>
void each_channel_block(const Layout& l, Fn&& fn) {
  const int64_t block = l.inner == 1 ? 64 : 1;
  const int64_t blocks = (l.c + block - 1) / block;
  parallel_ranges(blocks, 16384 / (block * l.count() + 1) + 1, [&](int64_t b, int64_t e) {
    simd([&]() AMP_INLINE {
      for (int64_t i = b; i < e; ++i) fn(i * block, std::min(l.c, (i + 1) * block));
    });
  });
}

// sum[j] = sum over batch and space of f(j, position) for the channels of a block.
template <class T, class F>
AMP_INLINE inline void channel_sums(const Layout& l, int64_t begin, int64_t end, double* sum, F&& f) {
  std::fill_n(sum, end - begin, 0.0);
  if (l.inner == 1) {
    for (int64_t i = 0; i < l.n; ++i) {
      for (int64_t c = begin; c < end; ++c) sum[c - begin] += static_cast<double>(f(c - begin, i * l.c + c));
    }
    return;
  }
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t at = (i * l.c + begin) * l.inner;
    for (int64_t b = 0; b < l.inner; b += 256) {
      const int64_t e = std::min(l.inner, b + 256);
      T part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t j = b; j < e; ++j) part += f(0, at + j);
      sum[0] += static_cast<double>(part);
    }
  }
}

// f(channel in block, position) for every element of a block.
template <class F>
AMP_INLINE inline void each_element(const Layout& l, int64_t begin, int64_t end, F&& f) {
  for (int64_t i = 0; i < l.n; ++i) {
    if (l.inner == 1) {
      for (int64_t c = begin; c < end; ++c) f(c - begin, i * l.c + c);
    } else {
      const int64_t at = (i * l.c + begin) * l.inner;
      for (int64_t j = 0; j < l.inner; ++j) f(0, at + j);
    }
  }
}

template <class T>
T rstd(T var, double epsilon) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(var) + epsilon));
}

// y = (x - mean) a + b: subtracting first keeps what a large mean would cancel.
template <class T>
AMP_INLINE inline void normalize(const Layout& l, int64_t begin, int64_t end, const T* x, const T* mean, const T* var,
                                 const T* scale, const T* bias, double epsilon, T* y) {
  T a[64];
  for (int64_t c = begin; c < end; ++c) a[c - begin] = scale[c] * rstd(var[c], epsilon);
  const T *m = mean + begin, *b = bias + begin;
  each_element(l, begin, end, [&](int64_t c, int64_t i) AMP_INLINE { y[i] = (x[i] - m[c]) * a[c] + b[c]; });
}

template <class T>
Kernel inference(const KernelArgs& args, Carver& carve) {
  const auto x = stage<T>(carve, args.in[0]), scale = stage<T>(carve, args.in[1]), bias = stage<T>(carve, args.in[2]);
  const auto mean = stage<T>(carve, args.in[3]), var = stage<T>(carve, args.in[4]), y = stage<T>(carve, args.out[0]);
  const Layout l(args.in[0].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  return [=] {
    for (const auto* t : {&x, &scale, &bias, &mean, &var}) t->load();
    each_channel_block(l, [&](int64_t b, int64_t e) AMP_INLINE {
      normalize<T>(l, b, e, x.data, mean.data, var.data, scale.data, bias.data, epsilon, y.data);
    });
    y.store();
  };
}

template <class T>
Kernel training(const KernelArgs& args, Carver& carve) {
  const auto x = stage<T>(carve, args.in[0]), scale = stage<T>(carve, args.in[1]), bias = stage<T>(carve, args.in[2]);
  const auto y = stage<T>(carve, args.out[0]), mean = stage<T>(carve, args.out[1]), var = stage<T>(carve, args.out[2]);
  const Layout l(args.in[0].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  return [=] {
    for (const auto* t : {&x, &scale, &bias}) t->load();
    each_channel_block(l, [&](int64_t b, int64_t e) AMP_INLINE {
      double sum[64];
      const T* in = x.data;
      channel_sums<T>(l, b, e, sum, [&](int64_t, int64_t i) AMP_INLINE { return in[i]; });
      const double count = l.divisor();
      T* m = mean.data + b;
      for (int64_t c = 0; c < e - b; ++c) m[c] = static_cast<T>(sum[c] / count);
      channel_sums<T>(l, b, e, sum, [&](int64_t c, int64_t i) AMP_INLINE { return (in[i] - m[c]) * (in[i] - m[c]); });
      for (int64_t c = 0; c < e - b; ++c) var.data[b + c] = static_cast<T>(sum[c] / count);
      normalize<T>(l, b, e, in, mean.data, var.data, scale.data, bias.data, epsilon, y.data);
    });
    for (const auto* t : {&y, &mean, &var}) t->store();
  };
}

// dscale = sum dy xhat, dbias = sum dy; dx = scale rstd (dy - [train] (dbias + xhat dscale) / count).
template <class T>
Kernel gradient(const KernelArgs& args, Carver& carve) {
  const auto dy = stage<T>(carve, args.in[0]), x = stage<T>(carve, args.in[1]), scale = stage<T>(carve, args.in[2]);
  const auto mean = stage<T>(carve, args.in[3]), var = stage<T>(carve, args.in[4]);
  const auto dx = stage<T>(carve, args.out[0]), dscale = stage<T>(carve, args.out[1]),
             dbias = stage<T>(carve, args.out[2]);
  const Layout l(args.in[1].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  const bool train = args.attrs().i("train", 0) != 0;
  return [=] {
    for (const auto* t : {&dy, &x, &scale, &mean, &var}) t->load();
    each_channel_block(l, [&](int64_t b, int64_t e) AMP_INLINE {
      const T *in = x.data, *grad = dy.data, *m = mean.data + b;
      T* out = dx.data;
      double sum_dy[64], sum_dy_x[64];
      channel_sums<T>(l, b, e, sum_dy, [&](int64_t, int64_t i) AMP_INLINE { return grad[i]; });
      channel_sums<T>(l, b, e, sum_dy_x, [&](int64_t c, int64_t i) AMP_INLINE { return grad[i] * (in[i] - m[c]); });
      T a[64], p[64], q[64];  // dx = a dy - p - q (x - mean)
      for (int64_t c = 0; c < e - b; ++c) {
        const T r = rstd(var.data[b + c], epsilon);
        dscale.data[b + c] = static_cast<T>(sum_dy_x[c]) * r;
        dbias.data[b + c] = static_cast<T>(sum_dy[c]);
        a[c] = scale.data[b + c] * r;
        const double per = train ? static_cast<double>(a[c]) / l.divisor() : 0;
        p[c] = static_cast<T>(per * sum_dy[c]);
        q[c] = static_cast<T>(per * sum_dy_x[c] * static_cast<double>(r) * static_cast<double>(r));
      }
      if (train) {
        each_element(l, b, e,
                     [&](int64_t c, int64_t i) AMP_INLINE { out[i] = a[c] * grad[i] - p[c] - q[c] * (in[i] - m[c]); });
      } else {
        each_element(l, b, e, [&](int64_t c, int64_t i) AMP_INLINE { out[i] = a[c] * grad[i]; });
      }
    });
    for (const auto* t : {&dx, &dscale, &dbias}) t->store();
  };
}

}  // namespace

Kernel batch_norm(const KernelArgs& a, Carver& c) {
  return in_double(a) ? inference<double>(a, c) : inference<float>(a, c);
}
Kernel batch_norm_train(const KernelArgs& a, Carver& c) {
  return in_double(a) ? training<double>(a, c) : training<float>(a, c);
}
Kernel batch_norm_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? gradient<double>(a, c) : gradient<float>(a, c);
}

}  // namespace amp
