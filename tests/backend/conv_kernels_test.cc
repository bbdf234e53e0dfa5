// The CPU's fp32 convolutions, each form by itself, against plain loops in fp64 (backend/cpu/conv_plain.h).
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "backend/cpu/conv_batch.h"
#include "backend/cpu/conv_channels.h"
#include "backend/cpu/conv_depthwise.h"
#include "backend/cpu/conv_depthwise_planes.h"
#include "backend/cpu/conv_direct.h"
#include "backend/cpu/conv_plain.h"
#include "backend/cpu/conv_pointwise.h"
#include "backend/cpu/conv_winograd.h"
#include "base/text.h"

using namespace amp;

namespace {

struct Shape {
  int64_t n, groups, c, m;
  std::array<int64_t, 3> in, kernel, stride, pad, dilation;
};

ConvShape conv_shape_of(const Shape& from) {
  ConvShape s;
  s.n = from.n, s.groups = from.groups, s.c = from.c, s.m = from.m;
  for (size_t i = 0; i < 3; ++i) {
    WindowAxis& a = s.window[i];
    a.in = from.in[i], a.kernel = from.kernel[i], a.stride = from.stride[i], a.dilation = from.dilation[i];
    a.pad = a.pad_end = from.pad[i];
    a.out = (a.in + 2 * a.pad - a.reach()) / a.stride + 1;
  }
  return s;
}

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
  }
  return v;
}
std::vector<double> wide(const std::vector<float>& v) { return {v.begin(), v.end()}; }

// make(carver, result) prepares a kernel; result is filled with NaN before it runs, twice.
template <class Make>
void agrees(const std::vector<double>& want, const std::string& what, Make&& make) {
  std::vector<float> got(want.size());
  Carver measure(nullptr);
  make(measure, got.data());
  std::vector<char> room(static_cast<size_t>(measure.bytes()) + 64, '\x7f');
  Carver carve(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64));
  const Kernel run = make(carve, got.data());
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (int times = 0; times < 2; ++times) {
    std::fill(got.begin(), got.end(), NAN);
    run();
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::abs(got[i] - want[i]);
      worst = error <= worst ? worst : error;  // NaN is kept
    }
    INFO(what << ": " << worst << " of " << largest);
    // Sums of n products in fp32 err by some sqrt(n) / 2^24 of their terms; n is below 10,000 here.
    CHECK(worst <= 3e-6 * largest);
  }
}

void check_all(const Shape& shape) {
  const ConvShape s = conv_shape_of(shape);
  const auto x = numbers(s.n * s.groups * s.c * s.in_size(), 1), w = numbers(s.groups * s.m * s.c * s.taps(), 2),
             bias = numbers(s.groups * s.m, 3), dy = numbers(s.n * s.groups * s.m * s.out_size(), 4);
  const auto x64 = wide(x), w64 = wide(w), bias64 = wide(bias), dy64 = wide(dy);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  conv_plain<double>(s, x64.data(), w64.data(), bias64.data(), y.data());
  conv_plain_grad_x<double>(s, dy64.data(), w64.data(), dx.data());
  conv_plain_grad_w<double>(s, x64.data(), dy64.data(), dw.data());
  const std::string of = cat("n ", s.n, " groups ", s.groups, " c ", s.c, " m ", s.m, " in ", shape.in[0], "x",
                             shape.in[1], "x", shape.in[2], " kernel ", shape.kernel[1], "x", shape.kernel[2],
                             " stride ", shape.stride[2], " dilation ", shape.dilation[2]);
  agrees(y, of + ", channels",
         [&](Carver& c, float* to) { return conv_channels(s, c, x.data(), w.data(), bias.data(), to); });
  agrees(dx, of + ", channels, dx",
         [&](Carver& c, float* to) { return conv_channels_grad_x(s, c, dy.data(), w.data(), to); });
  agrees(dw, of + ", channels, dw",
         [&](Carver& c, float* to) { return conv_channels_grad_w(s, c, x.data(), dy.data(), to); });
  agrees(y, of + ", pixels",
         [&](Carver& c, float* to) { return conv_direct(s, c, x.data(), w.data(), bias.data(), to); });
  agrees(dx, of + ", pixels, dx",
         [&](Carver& c, float* to) { return conv_direct_grad_x(s, c, dy.data(), w.data(), to); });
  agrees(dw, of + ", pixels, dw",
         [&](Carver& c, float* to) { return conv_direct_grad_w(s, c, x.data(), dy.data(), to); });
  if (conv_batch_fits(s)) {
    agrees(y, of + ", batch",
           [&](Carver& c, float* to) { return conv_batch(s, c, x.data(), w.data(), bias.data(), to); });
    agrees(dx, of + ", batch, dx",
           [&](Carver& c, float* to) { return conv_batch_grad_x(s, c, dy.data(), w.data(), to); });
    agrees(dw, of + ", batch, dw",
           [&](Carver& c, float* to) { return conv_batch_grad_w(s, c, x.data(), dy.data(), to); });
  }
  if (conv_depthwise_fits(s)) {
    agrees(y, of + ", depthwise",
           [&](Carver& c, float* to) { return conv_depthwise(s, c, x.data(), w.data(), bias.data(), to); });
    agrees(dx, of + ", depthwise, dx",
           [&](Carver& c, float* to) { return conv_depthwise_grad_x(s, c, dy.data(), w.data(), to); });
    agrees(dw, of + ", depthwise, dw",
           [&](Carver& c, float* to) { return conv_depthwise_grad_w(s, c, x.data(), dy.data(), to); });
  }
  if (conv_depthwise_planes_fits(s)) {
    agrees(y, of + ", planes",
           [&](Carver& c, float* to) { return conv_depthwise_planes(s, c, x.data(), w.data(), bias.data(), to); });
    agrees(dx, of + ", planes, dx",
           [&](Carver& c, float* to) { return conv_depthwise_planes_grad_x(s, c, dy.data(), w.data(), to); });
    agrees(dw, of + ", planes, dw",
           [&](Carver& c, float* to) { return conv_depthwise_planes_grad_w(s, c, x.data(), dy.data(), to); });
  }
  for (const Winograd tile : {Winograd::f2, Winograd::f4}) {
    if (!conv_winograd_fits(s)) break;
    const std::string by = of + (tile == Winograd::f2 ? ", F(2, 3)" : ", F(4, 3)");
    agrees(y, by, [&](Carver& c, float* to) { return conv_winograd(s, tile, c, x.data(), w.data(), bias.data(), to); });
    agrees(dx, by + ", dx",
           [&](Carver& c, float* to) { return conv_winograd_grad_x(s, tile, c, dy.data(), w.data(), to); });
    agrees(dw, by + ", dw",
           [&](Carver& c, float* to) { return conv_winograd_grad_w(s, tile, c, x.data(), dy.data(), to); });
  }
  if (!conv_pointwise_fits(s)) return;
  agrees(y, of + ", pointwise",
         [&](Carver& c, float* to) { return conv_pointwise(s, c, x.data(), w.data(), bias.data(), to); });
  agrees(dx, of + ", pointwise, dx",
         [&](Carver& c, float* to) { return conv_pointwise_grad_x(s, c, dy.data(), w.data(), to); });
  agrees(dw, of + ", pointwise, dw",
         [&](Carver& c, float* to) { return conv_pointwise_grad_w(s, c, x.data(), dy.data(), to); });
}

}  // namespace

TEST_CASE("each form of convolution agrees with plain loops in fp64", "[backend]") {
  const std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  const Shape shapes[] = {
      {2, 1, 16, 16, {1, 9, 7}, {1, 3, 3}, one, {0, 1, 1}, one},
      {3, 1, 17, 70, {1, 5, 5}, {1, 3, 3}, one, {0, 1, 1}, one},     // channels and pixels left over
      {2, 1, 64, 64, {1, 16, 16}, {1, 3, 3}, one, {0, 1, 1}, one},   // more than one task
      {1, 1, 64, 128, {1, 20, 33}, {1, 3, 3}, one, none, one},       // and image rows that end inside vectors
      {2, 1, 20, 40, {1, 40, 37}, {1, 3, 3}, one, {0, 1, 1}, one},   // many blocks of tiles
      {1, 1, 16, 18, {1, 70, 141}, {1, 3, 3}, one, {0, 2, 2}, one},  // rows of tiles in pieces
      {5, 1, 33, 100, {1, 6, 5}, {1, 3, 3}, one, {0, 0, 2}, one},    // blocks of tiles over several images
      {3, 1, 70, 200, {1, 9, 11}, {1, 3, 3}, one, {0, 1, 1}, one},
      {8, 1, 256, 48, {1, 4, 4}, {1, 3, 3}, one, {0, 1, 1}, one},  // weights in several chunks, a wide pitch
      {8, 1, 130, 96, {1, 2, 2}, {1, 3, 3}, one, {0, 1, 1}, one},
      {2, 1, 32, 40, {1, 13, 12}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},
      {2, 1, 32, 64, {1, 12, 12}, {1, 1, 1}, {1, 2, 2}, none, one},  // elements that no window reads
      {2, 1, 3, 64, {1, 32, 32}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, one},
      {2, 1, 24, 16, {1, 14, 11}, {1, 3, 2}, {1, 3, 1}, {0, 2, 0}, {1, 2, 3}},
      {2, 3, 16, 20, {1, 8, 8}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, one},
      {2, 4, 1, 2, {1, 8, 8}, {1, 3, 3}, one, {0, 1, 1}, one},
      {2, 16, 1, 1, {1, 8, 8}, {1, 3, 3}, one, {0, 1, 1}, one},  // depthwise
      {3, 48, 1, 1, {1, 15, 17}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, one},
      {1, 32, 1, 1, {3, 5, 20}, {2, 3, 5}, {1, 1, 3}, {0, 2, 0}, {1, 2, 1}},
      {2, 3, 1, 1, {1, 40, 37}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},
      {3, 5, 1, 1, {1, 33, 70}, {1, 5, 5}, one, {0, 2, 2}, one},
      {1, 1, 18, 33, {4, 6, 5}, {2, 3, 3}, {2, 1, 1}, {1, 1, 1}, one},
      {64, 1, 6, 16, {1, 14, 14}, {1, 5, 5}, one, none, one},  // lanes along images
      {35, 2, 3, 5, {1, 7, 9}, {1, 5, 3}, {1, 2, 1}, {0, 2, 1}, {1, 1, 2}},
      {17, 1, 7, 11, {3, 4, 5}, {2, 2, 3}, one, {1, 0, 1}, one},
      {2, 1, 24, 40, {1, 9, 8}, {1, 1, 1}, one, none, one},  // pointwise: products
      {5, 2, 16, 12, {1, 8, 8}, {1, 1, 1}, one, none, one},
  };
  for (const Shape& s : shapes) check_all(s);
}
