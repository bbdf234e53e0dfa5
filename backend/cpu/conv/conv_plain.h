// Convolution as plain loops over (image, channel, tap, row): the reference, and the fp64 implementation.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/parallel.h"

namespace amp {

namespace conv_detail {
// Calls fn(tap, offset of the first output, offset of the first input, number of outputs) for each row of outputs that
// a tap reaches.
template <class Fn>
void each_row(const ConvShape& s, Fn&& fn) {
  const auto& [d, h, w] = s.window;
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        const int64_t tap = (kd * h.kernel + kh) * w.kernel + kw, first = w.begin(kw), count = w.end(kw) - first;
        if (count <= 0) continue;
        for (int64_t od = d.begin(kd); od < d.end(kd); ++od) {
          for (int64_t oh = h.begin(kh); oh < h.end(kh); ++oh) {
            fn(tap, (od * h.out + oh) * w.out + first, (d.at(od, kd) * h.in + h.at(oh, kh)) * w.in + w.at(first, kw),
               count);
          }
        }
      }
    }
  }
}
}  // namespace conv_detail

// Computes y = Conv(x, w) + bias; bias may be null.
template <class T>
void conv_plain(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  const int64_t step = s.window[2].stride;
  parallel_for(s.n * s.groups * s.m, [&](int64_t plane) {
    const int64_t om = plane % (s.groups * s.m), n = plane / (s.groups * s.m), g = om / s.m;
    T* out = y + plane * s.out_size();
    std::fill_n(out, s.out_size(), bias ? bias[om] : T(0));
    for (int64_t c = 0; c < s.c; ++c) {
      const T* in = x + ((n * s.groups + g) * s.c + c) * s.in_size();
      const T* weight = w + (om * s.c + c) * s.taps();
      conv_detail::each_row(s, [&](int64_t tap, int64_t o, int64_t i, int64_t count) {
        for (int64_t j = 0; j < count; ++j) out[o + j] += weight[tap] * in[i + j * step];
      });
    }
  });
}

template <class T>
void conv_plain_grad_x(const ConvShape& s, const T* dy, const T* w, T* dx) {
  const int64_t step = s.window[2].stride;
  parallel_for(s.n * s.groups * s.c, [&](int64_t plane) {
    const int64_t ic = plane % (s.groups * s.c), n = plane / (s.groups * s.c), g = ic / s.c;
    T* out = dx + plane * s.in_size();
    std::fill_n(out, s.in_size(), T(0));
    for (int64_t m = 0; m < s.m; ++m) {
      const T* in = dy + ((n * s.groups + g) * s.m + m) * s.out_size();
      const T* weight = w + ((g * s.m + m) * s.c + ic % s.c) * s.taps();
      conv_detail::each_row(s, [&](int64_t tap, int64_t o, int64_t i, int64_t count) {
        for (int64_t j = 0; j < count; ++j) out[i + j * step] += weight[tap] * in[o + j];
      });
    }
  });
}

template <class T>
void conv_plain_grad_w(const ConvShape& s, const T* x, const T* dy, T* dw) {
  const int64_t step = s.window[2].stride;
  parallel_for(s.groups * s.m * s.c, [&](int64_t pair) {
    const int64_t om = pair / s.c, c = pair % s.c, g = om / s.m;
    T* out = dw + pair * s.taps();
    std::fill_n(out, s.taps(), T(0));
    for (int64_t n = 0; n < s.n; ++n) {
      const T* in = x + ((n * s.groups + g) * s.c + c) * s.in_size();
      const T* grad = dy + (n * s.groups * s.m + om) * s.out_size();
      conv_detail::each_row(s, [&](int64_t tap, int64_t o, int64_t i, int64_t count) {
        T sum = 0;
        for (int64_t j = 0; j < count; ++j) sum += grad[o + j] * in[i + j * step];
        out[tap] += sum;
      });
    }
  });
}

}  // namespace amp
