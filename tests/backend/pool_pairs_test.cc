// 2x2 max pooling with stride 2 (backend/cpu/pool/pool_pairs.h) against a loop over the taps in order.
#include "backend/cpu/pool/pool_pairs.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace amp;

namespace {

SlidingWindow window(int64_t height, int64_t width) {
  SlidingWindow w;
  for (const size_t axis : {size_t{1}, size_t{2}}) {
    WindowAxis& a = w[axis];
    a.in = axis == 1 ? height : width;
    a.kernel = a.stride = 2;
    a.out = a.in / 2;
  }
  return w;
}

// Returns numbers with few different values, so that most windows have ties, and with all kinds of NaN.
std::vector<float> values(int64_t n) {
  const float of[] = {0, -0.0f, 1, 1, 2, -3, INFINITY, -INFINITY, NAN};
  std::mt19937 draw(7);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = of[draw() % std::size(of)];
  return x;
}

}  // namespace

TEST_CASE("2x2 maxima are the first largest, or the last that is not a number", "[pool]") {
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{2, 2}, {10, 10}, {28, 28}, {4, 24}, {7, 37}, {6, 128}, {2, 512}, {2, 514}}) {
    const SlidingWindow w = window(height, width);
    REQUIRE(pool_pairs::fits(w));
    const std::vector<float> x = values(height * width);
    const int64_t n = w[1].out * w[2].out;
    std::vector<float> y(static_cast<size_t>(n)), dx(x.size(), NAN);
    std::vector<uint8_t> taps(y.size());
    simd([&]() AMP_INLINE { pool_pairs::pool_plane(w, x.data(), y.data(), taps.data()); });
    std::vector<float> want_dx(x.size(), 0.0f), dy(y.size());
    for (size_t i = 0; i < dy.size(); ++i) dy[i] = i % 5 == 0 ? -0.0f : static_cast<float>(i) - 3;
    for (int64_t o = 0; o < n; ++o) {
      float best = -INFINITY;
      int64_t tap = 0;
      const int64_t first = o / w[2].out * 2 * width + o % w[2].out * 2;
      const int64_t at[] = {first, first + 1, first + width, first + width + 1};
      for (int64_t k = 0; k < 4; ++k) {
        const float v = x[static_cast<size_t>(at[k])];
        if (v > best || std::isnan(v)) best = v, tap = k;
      }
      INFO(height << 'x' << width << ", output " << o);
      REQUIRE(taps[static_cast<size_t>(o)] == tap);
      REQUIRE(std::memcmp(&y[static_cast<size_t>(o)], &x[static_cast<size_t>(at[tap])], sizeof best) == 0);
      want_dx[static_cast<size_t>(at[tap])] += dy[static_cast<size_t>(o)];
    }
    simd([&]() AMP_INLINE { pool_pairs::grad_plane(w, dy.data(), taps.data(), dx.data()); });
    CHECK(std::memcmp(dx.data(), want_dx.data(), dx.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("other windows are not pairs", "[pool]") {
  SlidingWindow w = window(8, 8);
  w[1].pad = 1;
  CHECK(!pool_pairs::fits(w));
  w = window(8, 8);
  w[2].stride = 1;
  CHECK(!pool_pairs::fits(w));
  w = window(7, 8);
  w[1].out = 4;  // output size rounded up: the last window extends beyond the input
  CHECK(!pool_pairs::fits(w));
  w = window(8, 8);
  w[0].in = w[0].out = 2;
  CHECK(!pool_pairs::fits(w));
}
