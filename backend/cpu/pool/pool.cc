// Max and average pooling with 1 to 3 spatial dimensions, and their gradients. Loops run over taps, so that the
// inner loop covers a row of outputs. 2x2 max pooling at stride 2 has its own code (pool_pairs.h). Max pooling
// stores the tap of each output for its gradient (pool_taps.h).

#include "backend/cpu/pool/pool.h"

#include <array>
#include <limits>
#include <type_traits>
#include <vector>

#include "backend/cpu/pool/pool_pairs.h"
#include "backend/cpu/pool/pool_taps.h"

namespace amp {

namespace {

constexpr int64_t kChunk = 256;  // outputs of a row per chunk

SlidingWindow pool_window(const Dims& x, const Dims& y, const Attrs& a) {
  return make_window(x, y, a.ints("kernel"), a);
}

// The outputs [begin, end) for which each tap is inside the input, per axis.
struct Reach {
  std::array<std::vector<std::array<int64_t, 2>>, 3> outputs;
  explicit Reach(const SlidingWindow& w) {
    for (size_t i = 0; i < 3; ++i) {
      for (int64_t k = 0; k < w[i].kernel; ++k) outputs[i].push_back({w[i].begin(k), w[i].end(k)});
    }
  }
  bool has(size_t axis, int64_t k, int64_t o) const {
    const auto& [b, e] = outputs[axis][static_cast<size_t>(k)];
    return o >= b && o < e;
  }
  const std::array<int64_t, 2>& width(int64_t k) const { return outputs[2][static_cast<size_t>(k)]; }
};

// Calls fn(plane) for every (image, channel); planes have `work` elements.
template <class T, class Fn>
void each_plane(int64_t planes, int64_t work, Fn&& fn) {
  parallel_ranges(planes, 16384 / (work + 1) + 1, [&](int64_t b, int64_t e) {
    simd_for<T>([&]() AMP_INLINE {
      for (int64_t p = b; p < e; ++p) fn(p);
    });
  });
}

// Returns the first tap of output o that is inside the input; 0 if no tap is.
int64_t first_tap(const WindowAxis& a, int64_t o) {
  const int64_t lack = a.pad - o * a.stride;
  const int64_t k = lack <= 0 ? 0 : (lack + a.dilation - 1) / a.dilation;
  return k < a.kernel ? k : 0;
}

// The largest input so far of each output of a row. A tap is a position in the window; update() compares one tap of
// all outputs. Outputs whose tap is outside the input are compared with -inf, so that loops process whole vectors. A
// tail loop over single outputs would have branches that the CPU often mispredicts.
template <class T>
struct MaxRow {
  alignas(64) T best[kChunk], candidates[kChunk];
  alignas(64) int32_t which[kChunk];
  int64_t n = 0;  // number of columns (outputs of the row), a multiple of 16

  AMP_INLINE void start(int64_t columns, int32_t base, const int32_t* first) {
    n = (columns + 15) / 16 * 16;
    std::fill_n(best, n, -std::numeric_limits<T>::infinity());
    std::fill_n(which, n, base);
    for (int64_t j = 0; j < columns; ++j) which[j] += first[j];
  }
  // Compares columns [b, e) with x[0], x[stride], ... A NaN counts as the largest and is kept.
  AMP_INLINE void update(const T* x, int64_t stride, int64_t b, int64_t e, int32_t tap) {
    std::fill_n(candidates, b, -std::numeric_limits<T>::infinity());
    if (stride == 1)
      std::copy(x, x + (e - b), candidates + b);
    else if (stride == 2)
      for (int64_t j = b; j < e; ++j) candidates[j] = x[(j - b) * 2];
    else
      for (int64_t j = b; j < e; ++j) candidates[j] = x[(j - b) * stride];
    std::fill(candidates + e, candidates + n, -std::numeric_limits<T>::infinity());
    const int64_t whole = n & -16;  // equals n; lets the compiler omit the tail loop
#pragma omp simd
    for (int64_t j = 0; j < whole; ++j) {
      const T v = candidates[j];
      const bool take = v > best[j] || v != v;
      best[j] = take ? v : best[j];
      which[j] = take ? tap : which[j];
    }
  }
};

// Computes one row of outputs [begin, end) of one plane.
template <class T>
AMP_INLINE inline void max_row(const SlidingWindow& w, const Reach& reach, const T* x, int64_t od, int64_t oh,
                               int64_t begin, int64_t end, MaxRow<T>& out) {
  const auto& [d, h, c] = w;
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    if (!reach.has(0, kd, od)) continue;
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      if (!reach.has(1, kh, oh)) continue;
      const T* row = x + (d.at(od, kd) * h.in + h.at(oh, kh)) * c.in;
      for (int64_t kw = 0; kw < c.kernel; ++kw) {
        const auto& [first, last] = reach.width(kw);
        const int64_t b = std::max(begin, first), e = std::min(end, last);
        if (b >= e) continue;
        const T* from = row + c.at(b, kw);
        const auto tap = static_cast<int32_t>((kd * h.kernel + kh) * c.kernel + kw);
        out.update(from, c.stride, b - begin, e - begin, tap);
      }
    }
  }
}

template <class T>
Kernel typed_max_pool(const KernelArgs& a, Carver& carve) {
  const auto x = stage<T>(carve, a.in[0]), y = stage<T>(carve, a.out[0]);
  const Taps taps(a.out[1]);
  const SlidingWindow w = pool_window(a.in[0].dims, a.out[0].dims, a.attrs());
  const int64_t planes = a.in[0].dims[0] * a.in[0].dims[1], in = volume(w, &WindowAxis::in),
                out = volume(w, &WindowAxis::out);
  if constexpr (std::is_same_v<T, float>) {
    if (pool_pairs::fits(w) && taps.bytes) {
      return [=] {
        x.load();
        each_plane<T>(planes, 4 * out, [&](int64_t p) AMP_INLINE {
          pool_pairs::pool_plane(w, x.data + p * in, y.data + p * out, taps.narrow() + p * out);
        });
        y.store();
      };
    }
  }
  const Reach reach(w);
  std::vector<int32_t> first;
  for (int64_t o = 0; o < w[2].out; ++o) first.push_back(static_cast<int32_t>(first_tap(w[2], o)));
  return [=] {
    x.load();
    each_plane<T>(planes, out * volume(w, &WindowAxis::kernel), [&](int64_t p) AMP_INLINE {
      MaxRow<T> max;
      for (int64_t od = 0; od < w[0].out; ++od) {
        for (int64_t oh = 0; oh < w[1].out; ++oh) {
          const auto base =
              static_cast<int32_t>((first_tap(w[0], od) * w[1].kernel + first_tap(w[1], oh)) * w[2].kernel);
          for (int64_t b = 0; b < w[2].out; b += kChunk) {
            const int64_t e = std::min(w[2].out, b + kChunk), at = p * out + (od * w[1].out + oh) * w[2].out + b;
            max.start(e - b, base, first.data() + b);
            max_row<T>(w, reach, x.data + p * in, od, oh, b, e, max);
            std::copy_n(max.best, e - b, y.data + at);
            taps.store(max.which, at, e - b);
          }
        }
      }
    });
    y.store();
  };
}

template <class T>
Kernel typed_max_pool_grad(const KernelArgs& a, Carver& carve) {
  const Taps taps(a.in[1]);
  const SlidingWindow w = pool_window(a.out[0].dims, a.in[0].dims, a.attrs());
  const int64_t planes = a.in[0].dims[0] * a.in[0].dims[1], in = volume(w, &WindowAxis::in),
                out = volume(w, &WindowAxis::out);
  [[maybe_unused]] const bool pairs = pool_pairs::grad_gains(w) && taps.bytes;
  if constexpr (std::is_same_v<T, float>) {
    if (pairs && a.in[0].dtype == DType::bf16 && a.out[0].dtype == DType::bf16) {
      // Values are only copied, so they are handled as 16-bit integers.
      return [=, from = static_cast<const uint16_t*>(a.in[0].data), to = static_cast<uint16_t*>(a.out[0].data)] {
        each_plane<T>(planes, in + out, [&](int64_t p) AMP_INLINE {
          pool_pairs::grad_plane(w, from + p * out, taps.narrow() + p * out, to + p * in);
        });
      };
    }
  }
  const auto dy = stage<T>(carve, a.in[0]), dx = stage<T>(carve, a.out[0]);
  if constexpr (std::is_same_v<T, float>) {
    if (pairs) {
      return [=] {
        dy.load();
        each_plane<T>(planes, in + out, [&](int64_t p) AMP_INLINE {
          pool_pairs::grad_plane(w, dy.data + p * out, taps.narrow() + p * out, dx.data + p * in);
        });
        dx.store();
      };
    }
  }
  const std::vector<int64_t> offsets = tap_offsets(w);
  return [=] {
    dy.load();
    each_plane<T>(planes, in + out, [&](int64_t p) AMP_INLINE {
      T* to = dx.data + p * in;
      const T* from = dy.data + p * out;
      std::fill_n(to, in, T(0));
      each_choice(w, offsets, taps, p * out, [&](int64_t o, int64_t i) AMP_INLINE {
        if (i >= 0 && i < in) to[i] += from[o];
      });
    });
    dx.store();
  };
}

// Returns for each output the number of taps that count: taps inside the input and, with include_pad, inside its
// padding.
std::vector<double> tap_counts(const WindowAxis& a, bool include_pad) {
  std::vector<double> v;
  for (int64_t o = 0; o < a.out; ++o) {
    int64_t n = 0;
    for (int64_t k = 0; k < a.kernel; ++k) {
      const int64_t i = a.at(o, k);
      n += include_pad ? i < a.in + a.pad_end : i >= 0 && i < a.in;
    }
    v.push_back(static_cast<double>(std::max<int64_t>(n, 1)));
  }
  return v;
}

bool is_global(const SlidingWindow& w) {
  return std::all_of(w.begin(), w.end(), [](const WindowAxis& a) {
    return a.out == 1 && a.kernel == a.in && a.dilation == 1 && a.pad == 0;
  });
}

// Calls fn(first output of the row, first input, number of outputs) for each row of outputs that a tap reaches.
template <class Fn>
AMP_INLINE inline void each_tap_row(const SlidingWindow& win, const Reach& reach, int64_t od, int64_t oh, Fn&& fn) {
  const auto& [d, h, w] = win;
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    if (!reach.has(0, kd, od)) continue;
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      if (!reach.has(1, kh, oh)) continue;
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        const auto& [b, e] = reach.width(kw);
        fn(b, (d.at(od, kd) * h.in + h.at(oh, kh)) * w.in + w.at(b, kw), e - b);
      }
    }
  }
}

struct Counts {
  std::array<std::vector<double>, 3> per_axis;
  Counts(const SlidingWindow& w, const Attrs& a) {
    for (size_t i = 0; i < 3; ++i) per_axis[i] = tap_counts(w[i], a.i("count_include_pad", 0) != 0);
  }
  double rows(int64_t od, int64_t oh) const {
    return per_axis[0][static_cast<size_t>(od)] * per_axis[1][static_cast<size_t>(oh)];
  }
};

template <class T>
Kernel typed_average_pool(const KernelArgs& a, Carver& carve) {
  const auto x = stage<T>(carve, a.in[0]), y = stage<T>(carve, a.out[0]);
  const SlidingWindow w = pool_window(a.in[0].dims, a.out[0].dims, a.attrs());
  const int64_t planes = a.in[0].dims[0] * a.in[0].dims[1], in = volume(w, &WindowAxis::in),
                out = volume(w, &WindowAxis::out);
  if (is_global(w)) {
    return [=] {
      x.load();
      each_plane<T>(planes, in, [&](int64_t p) AMP_INLINE {
        const T* from = x.data + p * in;
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < in; ++i) sum += from[i];
        y.data[p] = sum / static_cast<T>(in);
      });
      y.store();
    };
  }
  const Counts counts(w, a.attrs());
  const Reach reach(w);
  return [=] {
    x.load();
    each_plane<T>(planes, out * volume(w, &WindowAxis::kernel), [&](int64_t p) AMP_INLINE {
      const T* from = x.data + p * in;
      const int64_t step = w[2].stride;
      for (int64_t od = 0; od < w[0].out; ++od) {
        for (int64_t oh = 0; oh < w[1].out; ++oh) {
          T* row = y.data + p * out + (od * w[1].out + oh) * w[2].out;
          std::fill_n(row, w[2].out, T(0));
          each_tap_row(w, reach, od, oh, [&](int64_t o, int64_t i, int64_t n) AMP_INLINE {
            for (int64_t j = 0; j < n; ++j) row[o + j] += from[i + j * step];
          });
          const double rows = counts.rows(od, oh);
          const double* columns = counts.per_axis[2].data();
          for (int64_t ow = 0; ow < w[2].out; ++ow) row[ow] /= static_cast<T>(rows * columns[ow]);
        }
      }
    });
    y.store();
  };
}

template <class T>
Kernel typed_average_pool_grad(const KernelArgs& a, Carver& carve) {
  const auto dy = stage<T>(carve, a.in[0]), dx = stage<T>(carve, a.out[0]);
  const SlidingWindow w = pool_window(a.out[0].dims, a.in[0].dims, a.attrs());
  const int64_t planes = a.in[0].dims[0] * a.in[0].dims[1], in = volume(w, &WindowAxis::in),
                out = volume(w, &WindowAxis::out);
  if (is_global(w)) {
    return [=] {
      dy.load();
      each_plane<T>(planes, in,
                    [&](int64_t p) AMP_INLINE { std::fill_n(dx.data + p * in, in, dy.data[p] / static_cast<T>(in)); });
      dx.store();
    };
  }
  const Counts counts(w, a.attrs());
  const Reach reach(w);
  return [=] {
    dy.load();
    each_plane<T>(planes, out * volume(w, &WindowAxis::kernel), [&](int64_t p) AMP_INLINE {
      T* to = dx.data + p * in;
      std::fill_n(to, in, T(0));
      const int64_t step = w[2].stride;
      for (int64_t od = 0; od < w[0].out; ++od) {
        for (int64_t oh = 0; oh < w[1].out; ++oh) {
          const T* row = dy.data + p * out + (od * w[1].out + oh) * w[2].out;
          const double rows = counts.rows(od, oh);
          const double* columns = counts.per_axis[2].data();
          each_tap_row(w, reach, od, oh, [&](int64_t o, int64_t i, int64_t n) AMP_INLINE {
            for (int64_t j = 0; j < n; ++j) to[i + j * step] += row[o + j] / static_cast<T>(rows * columns[o + j]);
          });
        }
      }
    });
    dx.store();
  };
}

}  // namespace

Kernel max_pool(const KernelArgs& a, Carver& c) {
  return in_double(a) ? typed_max_pool<double>(a, c) : typed_max_pool<float>(a, c);
}
Kernel max_pool_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? typed_max_pool_grad<double>(a, c) : typed_max_pool_grad<float>(a, c);
}
Kernel max_pool_index(const KernelArgs& a) {
  const Tensor index = a.out[0];
  const Taps taps(a.in[0]);
  const Dims& dims = a.in[0].dims;
  const SlidingWindow w = pool_window(a.attrs().ints("full"), dims, a.attrs());
  const int64_t planes = dims[0] * dims[1], in = volume(w, &WindowAxis::in), out = volume(w, &WindowAxis::out);
  const std::vector<int64_t> offsets = tap_offsets(w);
  return [=] {
    each_plane<int64_t>(planes, out, [&](int64_t p) AMP_INLINE {
      int64_t* const to = static_cast<int64_t*>(index.data) + p * out;
      each_choice(w, offsets, taps, p * out, [&](int64_t o, int64_t i) AMP_INLINE { to[o] = p * in + i; });
    });
  };
}
Kernel average_pool(const KernelArgs& a, Carver& c) {
  return in_double(a) ? typed_average_pool<double>(a, c) : typed_average_pool<float>(a, c);
}
Kernel average_pool_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? typed_average_pool_grad<double>(a, c) : typed_average_pool_grad<float>(a, c);
}

}  // namespace amp
