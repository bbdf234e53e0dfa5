// Pools, GridSample, determinants and recurrent layers on the emulated device against the CPU's kernels in fp64. The
// shapes exceed the operator table's: rows for a whole block, more channels than one thread handles, units that do not
// fill a warp.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "backend/cuda/emulator.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

using Ints = std::vector<int64_t>;

// Runs a node and compares each output with the CPU's. Running the threads in reverse order must give the same bits.
// Returns the CPU's outputs.
std::vector<HostTensor> compare(const char* op, const std::vector<HostTensor>& in, const Attrs& attrs,
                                double tolerance = 2e-6) {
  static const auto device = cuda::make_emulated_device();
  const std::vector<HostTensor> want = on_cpu(op, in, attrs);
  OnDevice node(*device, op, in, attrs, DType::f32);
  const std::vector<HostTensor> got = node.run(in);
  cuda::emulator::reversed(true);
  const std::vector<HostTensor> again = node.run(in);
  cuda::emulator::reversed(false);
  for (size_t i = 0; i < want.size(); ++i) {
    INFO(op << ", output " << i << " " << to_string(want[i].dims()));
    CHECK(worst(got[i], want[i]) < tolerance);
    CHECK(same_bits(got[i], again[i]));
  }
  return want;
}

HostTensor narrow(const HostTensor& t) { return is_float(t.dtype()) ? t.cast(DType::f32) : t; }

}  // namespace

TEST_CASE("larger pools on CUDA are the CPU's", "[cuda]") {
  struct Row {
    Dims x, y;
    Ints kernel, strides, dilations, pads;
  };
  for (const Row& r : {Row{{2, 3, 40, 41}, {2, 3, 20, 21}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
                       Row{{1, 2, 33, 50}, {1, 2, 31, 46}, {2, 3}, {1, 1}, {2, 2}, {0, 0, 0, 0}},
                       Row{{2, 3, 40, 41}, {2, 3, 1, 1}, {40, 41}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                       Row{{1, 2, 9, 14, 11}, {1, 2, 5, 7, 6}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {0, 0, 1, 2, 0, 1}}}) {
    Attrs a{{"kernel", r.kernel}, {"strides", r.strides}, {"dilations", r.dilations}, {"pads", r.pads}, {"dims", r.y}},
        back = a;
    back.set("dims", r.x);
    const HostTensor x = draw(r.x, 1), dy = draw(r.y, 2);
    const std::vector<HostTensor> y = compare("MaxPool", {x}, a);
    compare("MaxPoolGrad", {dy, y[1]}, back);
    Attrs index = a;
    index.set("full", r.x);
    compare("MaxPoolIndex", {y[1]}, index);
    for (const int64_t counts : {0, 1}) {
      a.set("count_include_pad", counts);
      back.set("count_include_pad", counts);
      compare("AveragePool", {x}, a);
      compare("AveragePoolGrad", {dy}, back);
    }
  }
}

TEST_CASE("larger samplings on CUDA are the CPU's", "[cuda]") {
  struct Row {
    Dims x, grid, y;
    int64_t mode, padding;
  };
  for (const Row& r : {Row{{2, 35, 20, 21}, {2, 15, 16, 2}, {2, 35, 15, 16}, 1, 0},
                       Row{{1, 17, 12, 9}, {1, 30, 41, 2}, {1, 17, 30, 41}, 2, 1},
                       Row{{1, 3, 6, 7, 8}, {1, 9, 8, 7, 3}, {1, 3, 9, 8, 7}, 2, 2},
                       Row{{1, 18, 50}, {1, 700, 1}, {1, 18, 700}, 1, 1}}) {
    const Attrs a{{"mode", r.mode}, {"padding", r.padding}, {"align", int64_t{0}}};
    const HostTensor x = draw(r.x, 1), grid = draw(r.grid, 2);
    compare("GridSample", {x, grid}, a, 2e-4);  // coordinates have rounding errors of 2^-24 of the image's size
    // Tests gradients of very different sizes in one plane.
    HostTensor dy = draw(r.y, 3);
    float* const v = dy.as_mutable<float>();
    for (int64_t i = 0; i < dy.numel(); i += 7) v[i] *= 1e-6f;
    compare("GridSampleGrad", {x, grid, dy}, a, 2e-4);
  }
}

TEST_CASE("small gradients of a sampled image keep their digits on CUDA, infinite ones give NaN", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const Attrs a{{"mode", int64_t{1}}, {"padding", int64_t{0}}, {"align", int64_t{1}}};
  const HostTensor x = draw({1, 1, 2, 8}, 1);
  // The sampled points lie exactly on the elements of the first row.
  std::vector<float> grid, dy;
  for (int i = 0; i < 8; ++i) {
    grid.insert(grid.end(), {static_cast<float>(2.0 * i / 7 - 1), -1.0f});
    dy.push_back(std::ldexp(1.0f, -i * 3));
  }
  std::vector<HostTensor> in{x, HostTensor::of<float>({1, 1, 8, 2}, grid), HostTensor::of<float>({1, 1, 1, 8}, dy)};
  OnDevice node(*device, "GridSampleGrad", in, a, DType::f32);
  const std::vector<double> dx = node.run(in)[0].to_doubles();
  for (size_t i = 0; i < 8; ++i) CHECK(std::abs(dx[i] / dy[i] - 1) < 1e-2);
  dy[3] = INFINITY;
  in[2] = HostTensor::of<float>({1, 1, 1, 8}, dy);
  const std::vector<double> broken = node.run(in)[0].to_doubles();
  CHECK(!std::isfinite(broken[3]));
  CHECK(std::abs(broken[0] - 1) < 1e-2);
}

TEST_CASE("many determinants on CUDA are the CPU's", "[cuda]") {
  HostTensor x = draw({70, 6, 6}, 1);
  float* const v = x.as_mutable<float>();
  for (int64_t k = 0; k < 6; ++k) v[5 * 36 + 6 + k] = v[5 * 36 + k];  // two equal rows make a matrix singular
  compare("Det", {x}, {}, 1e-5);
  compare("DetGrad", {x, draw({70}, 2)}, {}, 1e-5);
}

TEST_CASE("larger recurrent layers on CUDA are the CPU's", "[cuda]") {
  const int64_t T = 9, B = 5, H = 37;
  const HostTensor lens = HostTensor::of<int64_t>({B}, std::vector<int64_t>{9, 4, 0, 7, 1}), none;
  const HostTensor h0 = draw({B, H}, 1), c0 = draw({B, H}, 2), dy = draw({T, B, H}, 3), dh = draw({B, H}, 4),
                   dc = draw({B, H}, 5);
  const auto weights = [](const Dims& d) {
    HostTensor t = draw(d, 6);
    float* const v = t.as_mutable<float>();
    for (int64_t i = 0; i < t.numel(); ++i) v[i] *= 0.2f;
    return t;
  };
  const auto attrs = [](int64_t reverse, Ints kinds) {
    const std::vector<double> zero(kinds.size(), 0.0);
    return Attrs{{"reverse", reverse}, {"activation", std::move(kinds)}, {"alpha", zero}, {"beta", zero}};
  };
  for (const int64_t reverse : {0, 1}) {
    for (const HostTensor& l : {lens, none}) {
      for (const bool more : {false, true}) {
        INFO("reverse " << reverse << ", lengths " << bool(l) << ", peepholes or reset after " << more);
        const HostTensor peepholes = more ? draw({3 * H}, 7) : none, rb = more ? draw({H}, 8) : none;
        const HostTensor R4 = weights({4 * H, H}), R3 = weights({3 * H, H}), R1 = weights({H, H});
        const Attrs a4 = attrs(reverse, {0, 1, 1}), a3 = attrs(reverse, {0, 1}), a1 = attrs(reverse, {1});
        const auto y4 = compare("LSTM", {draw({T, B, 4 * H}, 9), R4, h0, c0, l, peepholes}, a4, 1e-5);
        compare("LSTMGrad", {R4, h0, c0, l, peepholes, narrow(y4[3]), narrow(y4[4]), narrow(y4[0]), dy, dh, dc}, a4,
                1e-5);
        const auto y3 = compare("GRU", {draw({T, B, 3 * H}, 10), R3, h0, l, rb}, a3, 1e-5);
        compare("GRUGrad", {R3, h0, l, rb, narrow(y3[2]), narrow(y3[3]), narrow(y3[0]), dy, dh}, a3, 1e-5);
        const auto y1 = compare("RNN", {draw({T, B, H}, 11), R1, h0, l}, a1, 1e-5);
        compare("RNNGrad", {R1, h0, l, narrow(y1[0]), dy, dh}, a1, 1e-5);
      }
    }
  }
}
