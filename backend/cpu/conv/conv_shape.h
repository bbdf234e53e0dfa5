// Shapes of a convolution: y = Conv(x, w), x (N, G*C, ...), w (G*M, C, kernel...), y (N, G*M, ...).
#pragma once

#include "backend/kernel.h"
#include "backend/sliding_window.h"

namespace amp {

struct ConvShape {
  int64_t n = 0, groups = 1;
  int64_t c = 0, m = 0;  // input and output channels per group
  SlidingWindow window;

  int64_t in_size() const { return volume(window, &WindowAxis::in); }
  int64_t out_size() const { return volume(window, &WindowAxis::out); }
  int64_t taps() const { return volume(window, &WindowAxis::kernel); }
};

inline ConvShape conv_shape(const Dims& x, const Dims& w, const Dims& y, const Attrs& a) {
  ConvShape s;
  s.n = x.at(0);
  s.groups = a.i("group", 1);
  s.c = w.at(1);
  s.m = w.at(0) / s.groups;
  s.window = make_window(x, y, Dims(w.begin() + 2, w.end()), a);
  return s;
}

}  // namespace amp
