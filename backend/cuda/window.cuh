// Sliding windows (backend/sliding_window.h) for kernels, with 32-bit numbers and divisions by multiplication.
// each_tap() visits the taps of an output that are inside the input. each_output() visits the outputs that have a tap
// on an input; gradients gather from these.
#pragma once

#include "backend/cuda/raw.cuh"
#include "backend/cuda/thread.cuh"
#include "backend/sliding_window.h"
#include "base/error.h"

namespace amp::cuda {

// As Divisor (divide.cuh), but only for numbers below 2^31, so that it needs no 64-bit arithmetic (Granlund and
// Montgomery, Division by invariant integers using multiplication, 1994).
struct SmallDivisor {
  unsigned d = 1, multiplier = 1, shift = 0;

  SmallDivisor() = default;
  explicit SmallDivisor(int64_t divisor) {
    check(divisor >= 1 && divisor < (int64_t{1} << 31), "a divisor outside 1..2^31");
    d = static_cast<unsigned>(divisor);
    while ((uint64_t{1} << shift) < d) ++shift;
    multiplier = static_cast<unsigned>((((uint64_t{1} << shift) - d) << 32) / d + 1);
  }
  DEV int over(int n) const {
#ifdef __CUDA_ARCH__
    const unsigned high = __umulhi(static_cast<unsigned>(n), multiplier);
#else
    const auto high = static_cast<unsigned>(uint64_t{static_cast<unsigned>(n)} * multiplier >> 32);
#endif
    return static_cast<int>((high + static_cast<unsigned>(n)) >> shift);
  }
  // Sets n to the quotient and returns the remainder.
  DEV int split(int& n) const {
    const int q = over(n), rest = n - q * static_cast<int>(d);
    n = q;
    return rest;
  }
};

struct DeviceAxis {
  int in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0;
  SmallDivisor by_stride, by_dilation;

  DEV int at(int o, int k) const { return o * stride + k * dilation - pad; }
  // Taps [first_tap(o), last_tap(o)) of output o are inside the input. There are none if first_tap(o) >= last_tap(o).
  DEV int first_tap(int o) const { return taps_below(pad - o * stride); }
  DEV int last_tap(int o) const { return taps_below(in + pad - o * stride); }
  // Returns the number of taps before the end of the input's padding.
  DEV int padded_taps(int o) const { return taps_below(in + pad_end + pad - o * stride); }
  // Only outputs [first_output(i), last_output(i)] can have a tap on input i. tap(i, o) returns the tap of output o, or
  // -1 if output o has none on input i.
  DEV int first_output(int i) const {
    const int lack = i + pad - (kernel - 1) * dilation;
    return lack <= 0 ? 0 : by_stride.over(lack + stride - 1);
  }
  DEV int last_output(int i) const {
    const int o = by_stride.over(i + pad);
    return o < out ? o : out - 1;
  }
  DEV int tap(int i, int o) const {
    const int past = i + pad - o * stride, k = by_dilation.over(past);
    return k * dilation == past ? k : -1;
  }

 private:
  // Returns the number of taps k with k * dilation < n.
  DEV int taps_below(int n) const {
    if (n <= 0) return 0;
    const int k = by_dilation.over(n + dilation - 1);
    return k < kernel ? k : kernel;
  }
};

struct DeviceWindow {
  DeviceAxis d, h, w;
  SmallDivisor out_h, out_w, in_h, in_w;

  explicit DeviceWindow(const SlidingWindow& window)
      : out_h(extent(window[1].out)),
        out_w(extent(window[2].out)),
        in_h(extent(window[1].in)),
        in_w(extent(window[2].in)) {
    DeviceAxis* const to[3] = {&d, &h, &w};
    for (size_t i = 0; i < 3; ++i) {
      const WindowAxis& a = window[i];
      const auto fits = [&](int64_t v) {
        if (v < 0 || v >= (int64_t{1} << 30))
          fail(Exit::unsupported, "E_CUDA_SIZE",
               cat("a window's size, stride or padding is ", v, ": CUDA kernels require less than 2^30"));
        return static_cast<int>(v);
      };
      fits(a.in + a.pad + a.pad_end + a.dilation + a.stride);
      fits((a.out - 1) * a.stride + a.reach());
      *to[i] = {fits(a.in),  fits(a.out),     fits(a.kernel),         fits(a.stride),          fits(a.dilation),
                fits(a.pad), fits(a.pad_end), SmallDivisor(a.stride), SmallDivisor(a.dilation)};
    }
    if (volume(window, &WindowAxis::in) >= (int64_t{1} << 31) ||
        volume(window, &WindowAxis::out) >= (int64_t{1} << 31)) {
      fail(Exit::unsupported, "E_CUDA_SIZE", "a channel of 2^31 elements or more: too large for a CUDA kernel");
    }
  }
  DEV int taps() const { return d.kernel * h.kernel * w.kernel; }
  DEV int64_t in_size() const { return int64_t{d.in} * h.in * w.in; }
  DEV int64_t out_size() const { return int64_t{d.out} * h.out * w.out; }
  // Sets the coordinates of an output or input from its flat position in its plane (one channel of one image).
  DEV void output(int at, int& od, int& oh, int& ow) const {
    ow = out_w.split(at);
    oh = out_h.split(at);
    od = at;
  }
  DEV void input(int at, int& id, int& ih, int& iw) const {
    iw = in_w.split(at);
    ih = in_h.split(at);
    id = at;
  }

 private:
  static int64_t extent(int64_t n) { return n < 1 ? 1 : n; }  // avoids a divisor of 0 for empty tensors
};

// Calls f(tap, flat position in the input plane) for the taps of an output that are inside the input, in order.
template <class F>
DEV void each_tap(const DeviceWindow& w, int od, int oh, int ow, F f) {
  const int d0 = w.d.first_tap(od), d1 = w.d.last_tap(od), h0 = w.h.first_tap(oh), h1 = w.h.last_tap(oh),
            w0 = w.w.first_tap(ow), w1 = w.w.last_tap(ow);
  for (int kd = d0; kd < d1; ++kd) {
    for (int kh = h0; kh < h1; ++kh) {
      const int row = (w.d.at(od, kd) * w.h.in + w.h.at(oh, kh)) * w.w.in, tap = (kd * w.h.kernel + kh) * w.w.kernel;
      for (int kw = w0; kw < w1; ++kw) f(tap + kw, row + w.w.at(ow, kw));
    }
  }
}

// Calls f(flat position in the output plane, od, oh, ow, tap) for the outputs that have a tap on input `at`, in order.
template <class F>
DEV void each_output(const DeviceWindow& w, int at, F f) {
  int id, ih, iw;
  w.input(at, id, ih, iw);
  const int d1 = w.d.last_output(id), h1 = w.h.last_output(ih), w1 = w.w.last_output(iw);
  for (int od = w.d.first_output(id); od <= d1; ++od) {
    const int kd = w.d.tap(id, od);
    for (int oh = w.h.first_output(ih); kd >= 0 && oh <= h1; ++oh) {
      const int kh = w.h.tap(ih, oh);
      for (int ow = w.w.first_output(iw); kh >= 0 && ow <= w1; ++ow) {
        const int kw = w.w.tap(iw, ow);
        if (kw >= 0) f((od * w.h.out + oh) * w.w.out + ow, od, oh, ow, (kd * w.h.kernel + kh) * w.w.kernel + kw);
      }
    }
  }
}

}  // namespace amp::cuda
