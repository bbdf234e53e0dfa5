// Compares each CPU convolution kernel with plain loops in fp64 (backend/cpu/conv/conv_plain.h).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "backend/cpu/conv/conv.h"
#include "backend/cpu/conv/conv_batch.h"
#include "backend/cpu/conv/conv_channels.h"
#include "backend/cpu/conv/conv_depthwise.h"
#include "backend/cpu/conv/conv_depthwise_planes.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_plain.h"
#include "backend/cpu/conv/conv_pointwise.h"
#include "backend/cpu/conv/conv_winograd.h"
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

// A kernel that make(carver) prepares, with a workspace of the measured size. The bytes after the workspace must not
// change.
struct Prepared {
  std::vector<char> room;
  char* end;
  Kernel run;

  template <class Make>
  explicit Prepared(Make&& make) {
    Carver measure(nullptr);
    make(measure);
    room.resize(static_cast<size_t>(measure.bytes()) + 64 + kBehind, '\x7f');
    char* begin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
    end = begin + measure.bytes();
    Carver carve(begin);
    run = make(carve);
  }
  bool inside() const {
    return std::all_of(end, end + kBehind, [](char c) { return c == '\x7f'; });
  }

  static constexpr int64_t kBehind = 8192;
};

// Checks the kernel that make(carver, result) prepares against `want`. The kernel runs twice; result is filled with NaN
// before each run.
template <class Make>
void agrees(const std::vector<double>& want, const std::string& what, Make&& make) {
  std::vector<float> got(want.size());
  const Prepared kernel([&](Carver& c) { return make(c, got.data()); });
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (int times = 0; times < 2; ++times) {
    std::fill(got.begin(), got.end(), NAN);
    kernel.run();
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::abs(got[i] - want[i]);
      worst = error <= worst ? worst : error;  // a NaN also becomes the worst error
    }
    INFO(what << ": " << worst << " of " << largest);
    // fp32 sums of n products have errors of about sqrt(n) / 2^24 of their terms. Here n is below 10,000.
    CHECK(worst <= 3e-6 * largest);
    CHECK(kernel.inside());
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

// Returns numbers that are rounded to bf16, so that fp32 and bf16 operands are equal.
std::vector<float> short_numbers(int64_t n, uint32_t seed) {
  auto v = numbers(n, seed);
  for (float& x : v) x = static_cast<float>(BFloat16(x));
  return v;
}
std::vector<BFloat16> narrowed(const std::vector<float>& v) {
  std::vector<BFloat16> to(v.size());
  from_float(v.data(), to.data(), static_cast<int64_t>(v.size()));
  return to;
}
Stored stored(const std::vector<BFloat16>& v) {
  Stored s;
  s.data = v.data(), s.dtype = DType::bf16;
  return s;
}

// Checks that results stored in bf16 equal the rounded fp32 results. make: as in agrees(), with a StoredOut as the
// result.
template <class Make>
void rounds(const std::vector<double>& want, const std::string& what, Make&& make) {
  agrees(want, what, make);
  std::vector<float> wide(want.size());
  std::vector<BFloat16> narrow(want.size());
  StoredOut to(wide.data());
  for (const bool bf16 : {false, true}) {
    if (bf16) to.data = narrow.data(), to.dtype = DType::bf16;
    const Prepared kernel([&](Carver& c) { return make(c, to); });
    kernel.run();
    CHECK(kernel.inside());
  }
  const std::vector<BFloat16> rounded = narrowed(wide);
  INFO(what);
  CHECK(std::memcmp(rounded.data(), narrow.data(), narrow.size() * sizeof(BFloat16)) == 0);
}

void check_bf16(const Shape& shape) {
  const ConvShape s = conv_shape_of(shape);
  const auto x = short_numbers(s.n * s.groups * s.c * s.in_size(), 1),
             w = short_numbers(s.groups * s.m * s.c * s.taps(), 2), bias = short_numbers(s.groups * s.m, 3),
             dy = short_numbers(s.n * s.groups * s.m * s.out_size(), 4);
  const auto x64 = wide(x), w64 = wide(w), bias64 = wide(bias), dy64 = wide(dy);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  conv_plain<double>(s, x64.data(), w64.data(), bias64.data(), y.data());
  conv_plain_grad_x<double>(s, dy64.data(), w64.data(), dx.data());
  conv_plain_grad_w<double>(s, x64.data(), dy64.data(), dw.data());
  const auto x16 = narrowed(x), w16 = narrowed(w), bias16 = narrowed(bias), dy16 = narrowed(dy);
  const std::string of =
      cat("bf16, n ", s.n, " groups ", s.groups, " c ", s.c, " m ", s.m, " in ", shape.in[1], "x", shape.in[2],
          " kernel ", shape.kernel[1], "x", shape.kernel[2], " stride ", shape.stride[2]);
  const auto all = [&](const std::string& by, auto&& forward, auto&& grad_x, auto&& grad_w) {
    rounds(y, of + by, forward);
    rounds(dx, of + by + ", dx", grad_x);
    if (s.groups == 1 || by != ", channels") agrees(dw, of + by + ", dw", grad_w);
  };
  if (conv_channels_takes(DType::bf16, DType::bf16)) {
    all(
        ", channels",
        [&](Carver& c, StoredOut to) { return conv_channels(s, c, stored(x16), stored(w16), bias.data(), to); },
        [&](Carver& c, StoredOut to) { return conv_channels_grad_x(s, c, stored(dy16), stored(w16), to); },
        [&](Carver& c, float* to) { return conv_channels_grad_w(s, c, stored(x16), stored(dy16), to); });
  }
  if (conv_pointwise_fits(s)) {
    all(
        ", pointwise",
        [&](Carver& c, StoredOut to) { return conv_pointwise(s, c, stored(x16), stored(w16), stored(bias16), to); },
        [&](Carver& c, StoredOut to) { return conv_pointwise_grad_x(s, c, stored(dy16), stored(w16), to); },
        [&](Carver& c, float* to) { return conv_pointwise_grad_w(s, c, stored(x16), stored(dy16), to); });
  }
  all(
      ", fastest",
      [&](Carver& c, StoredOut to) { return fastest_conv(s, c, stored(x16), stored(w16), stored(bias16), to); },
      [&](Carver& c, StoredOut to) { return fastest_conv_grad_x(s, c, stored(dy16), stored(w16), to); },
      [&](Carver& c, float* to) { return fastest_conv_grad_w(s, c, stored(x16), stored(dy16), to); });
}

}  // namespace

TEST_CASE("convolutions of bf16 agree with plain loops in fp64 and round once", "[backend]") {
  const std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  const Shape shapes[] = {
      {2, 1, 16, 16, {1, 9, 7}, {1, 3, 3}, one, {0, 1, 1}, one},
      {3, 1, 17, 70, {1, 5, 5}, {1, 3, 3}, one, {0, 1, 1}, one},  // odd channels and images: incomplete pairs
      {1, 1, 18, 35, {1, 6, 6}, {1, 3, 3}, one, {0, 1, 1}, one},
      {2, 1, 64, 64, {1, 16, 16}, {1, 3, 3}, one, {0, 1, 1}, one},
      {4, 1, 96, 48, {1, 7, 7}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},
      {2, 1, 32, 80, {1, 37, 36}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},  // partial blocks of pixels
      {2, 1, 33, 70, {1, 16, 19}, {1, 3, 3}, one, {0, 1, 1}, one},        // odd channels
      {1, 1, 16, 17, {1, 40, 33}, {1, 5, 5}, one, {0, 2, 3}, one},
      {3, 1, 40, 16, {1, 24, 24}, {1, 3, 3}, one, none, {1, 2, 2}},
      {5, 1, 33, 100, {1, 6, 5}, {1, 3, 3}, one, {0, 0, 2}, one},
      {8, 1, 512, 48, {1, 4, 4}, {1, 3, 3}, one, {0, 1, 1}, one},        // weights in several chunks, a wide pitch
      {2, 1, 40, 260, {1, 4, 4}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},  // tasks that pack their weights
      {2, 1, 32, 64, {1, 12, 12}, {1, 1, 1}, {1, 2, 2}, none, one},
      {1, 1, 48, 112, {1, 9, 9}, {1, 1, 1}, {1, 2, 2}, none, one},
      {3, 1, 31, 65, {1, 11, 7}, {1, 1, 1}, one, none, one},
      {2, 1, 24, 16, {1, 14, 11}, {1, 3, 2}, {1, 3, 1}, {0, 2, 0}, {1, 2, 3}},
      {2, 3, 16, 20, {1, 8, 8}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, one},
      {3, 1, 18, 33, {4, 6, 5}, {2, 3, 3}, {2, 1, 1}, {1, 1, 1}, one},
      {2, 1, 16, 20, {1, 14, 14}, {1, 13, 13}, one, {0, 6, 6}, one},  // more taps than the kernel transposes
      {2, 1, 24, 40, {1, 9, 8}, {1, 1, 1}, one, none, one},
      {5, 2, 16, 12, {1, 8, 8}, {1, 1, 1}, one, none, one},
      {2, 16, 1, 1, {1, 8, 8}, {1, 3, 3}, one, {0, 1, 1}, one},
  };
  for (const Shape& s : shapes) check_bf16(s);
}

TEST_CASE("each form of convolution agrees with plain loops in fp64", "[backend]") {
  const std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  const Shape shapes[] = {
      {2, 1, 16, 16, {1, 9, 7}, {1, 3, 3}, one, {0, 1, 1}, one},
      {3, 1, 17, 70, {1, 5, 5}, {1, 3, 3}, one, {0, 1, 1}, one},     // partial blocks of channels, pixels
      {2, 1, 64, 64, {1, 16, 16}, {1, 3, 3}, one, {0, 1, 1}, one},   // more than one task
      {1, 1, 64, 128, {1, 20, 33}, {1, 3, 3}, one, none, one},       // also: image rows end inside vectors
      {2, 1, 20, 40, {1, 40, 37}, {1, 3, 3}, one, {0, 1, 1}, one},   // many blocks of tiles
      {1, 1, 16, 18, {1, 70, 141}, {1, 3, 3}, one, {0, 2, 2}, one},  // rows of tiles that are split
      {5, 1, 33, 100, {1, 6, 5}, {1, 3, 3}, one, {0, 0, 2}, one},    // blocks of tiles over several images
      {3, 1, 70, 200, {1, 9, 11}, {1, 3, 3}, one, {0, 1, 1}, one},
      {8, 1, 256, 48, {1, 4, 4}, {1, 3, 3}, one, {0, 1, 1}, one},  // weights in several chunks, a wide pitch
      {8, 1, 130, 96, {1, 2, 2}, {1, 3, 3}, one, {0, 1, 1}, one},
      {2, 1, 32, 40, {1, 13, 12}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, one},
      {2, 1, 32, 64, {1, 12, 12}, {1, 1, 1}, {1, 2, 2}, none, one},  // some elements of the image are in no window
      {1, 1, 48, 112, {1, 9, 9}, {1, 1, 1}, {1, 2, 2}, none, one},
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
      {64, 1, 6, 16, {1, 14, 14}, {1, 5, 5}, one, none, one},                // vectorized over images
      {44, 2, 3, 5, {1, 7, 9}, {1, 5, 3}, {1, 2, 1}, {0, 2, 1}, {1, 1, 2}},  // 3 vectors, the last one not full
      {29, 1, 7, 11, {3, 4, 5}, {2, 2, 3}, one, {1, 0, 1}, one},
      {2, 1, 24, 40, {1, 9, 8}, {1, 1, 1}, one, none, one},  // pointwise: products
      {3, 1, 31, 65, {1, 11, 7}, {1, 1, 1}, one, none, one},
      {5, 2, 16, 12, {1, 8, 8}, {1, 1, 1}, one, none, one},
  };
  for (const Shape& s : shapes) check_all(s);

  // check_all() leaves out kernels that do not fit a shape. Each kernel must fit some shapes, also of odd sizes.
  const auto fitting = [&](const auto& fits) {
    return std::count_if(std::begin(shapes), std::end(shapes), [&](const Shape& s) { return fits(conv_shape_of(s)); });
  };
  CHECK(fitting([](const ConvShape& s) { return conv_batch_fits(s) && s.n % 16 != 0; }) >= 2);
  CHECK(fitting([](const ConvShape& s) { return conv_depthwise_fits(s) && s.window[2].out % 4 != 0; }) >= 2);
  CHECK(fitting([](const ConvShape& s) { return conv_depthwise_planes_fits(s) && s.window[2].out % 4 != 0; }) >= 2);
  CHECK(fitting([](const ConvShape& s) { return conv_winograd_fits(s) && s.window[2].out % 4 != 0; }) >= 2);
  CHECK(fitting([](const ConvShape& s) { return conv_pointwise_fits(s) && s.out_size() % 16 != 0; }) >= 2);
}
