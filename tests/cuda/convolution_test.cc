// Convolutions on the emulated device beyond the cases of the operator table: images in chunks, grouped channels, mixed
// types. Also the guard that checks a convolution library.
#include "backend/cuda/convolution.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <iostream>
#include <sstream>

#include "backend/interpreter.h"
#include "backend/program.h"
#include "graph/builder.h"
#include "tests/cuda/on_device.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Shapes {
  Dims x, w, y;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group;
  Attrs attrs(const Dims& dims = {}) const {
    Attrs a{{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
    if (!dims.empty()) a.set("dims", dims);
    return a;
  }
};
const Shapes kShapes[] = {
    {{5, 6, 9, 8}, {8, 6, 3, 3}, {5, 8, 5, 8}, {2, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {{5, 8, 7, 9}, {12, 4, 3, 2}, {5, 12, 4, 6}, {1, 1}, {1, 2}, {0, 0, 0, 0}, 2},
    {{5, 8, 8, 8}, {12, 4, 3, 3}, {5, 12, 8, 8}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 2},
    {{3, 8, 40}, {16, 2, 5}, {3, 16, 20}, {2}, {1}, {2, 2}, 4},
    {{3, 8, 6, 6}, {8, 8, 1, 1}, {3, 8, 6, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {{3, 4, 4, 5, 6}, {4, 2, 2, 3, 3}, {3, 4, 3, 5, 3}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1, 0, 1, 1}, 2},
    {{2, 6, 40, 36}, {12, 1, 3, 3}, {2, 12, 40, 36}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 6}};

Shapes valid(Shapes s) {  // computes output extents from the window
  for (size_t i = 0; i < s.strides.size(); ++i) {
    s.y[i + 2] =
        (s.x[i + 2] + s.pads[i] + s.pads[s.strides.size() + i] - (s.w[i + 2] - 1) * s.dilations[i] - 1) / s.strides[i] +
        1;
  }
  return s;
}

}  // namespace

TEST_CASE("CUDA convolutions in chunks, groups and mixed types are the CPU's", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const Shapes& given : kShapes) {
    const Shapes s = valid(given);
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const HostTensor x = draw(s.x, 1, type), w = draw(s.w, 2, type), dy = draw(s.y, 3, type),
                       bias = draw({s.w[0]}, 4, type);
      const auto check_one = [&](const char* op, const std::vector<HostTensor>& in, Attrs attrs) {
        const HostTensor want = on_cpu(op, in, attrs)[0];
        for (const DType out : {type, DType::f32}) {
          std::vector<HostTensor> results;
          for (const int64_t limit : {int64_t{1} << 28, int64_t{9000}, int64_t{1}}) {
            attrs.set("column_bytes", limit);
            INFO(op << " of " << to_string(s.x) << " with " << to_string(s.w) << " in " << name_of(type) << " to "
                    << name_of(out) << ", " << limit << " bytes of columns");
            OnDevice node(*device, op, in, attrs, out);
            results.push_back(node.run(in)[0]);
            CHECK(worst(results.back(), want) < (out == DType::f32 ? 2e-6 : out == DType::f16 ? 1e-3 : 8e-3));
          }
        }
      };
      check_one("Conv", {x, w, bias}, s.attrs());
      check_one("ConvGradX", {dy, w}, s.attrs(s.x));
      check_one("ConvGradW", {x, dy}, s.attrs(s.w));
    }
  }
}

TEST_CASE("a limit on the workspace of columns is respected", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const Shapes s = valid(kShapes[0]);
  const std::vector<HostTensor> in{draw(s.x, 1), draw(s.w, 2)};
  Attrs attrs = s.attrs();
  const int64_t whole = OnDevice(*device, "Conv", in, attrs, DType::f32).workspace();
  attrs.set("column_bytes", int64_t{1});
  const int64_t least = OnDevice(*device, "Conv", in, attrs, DType::f32).workspace();
  const int64_t image = 6 * 9 * s.y[2] * s.y[3] * 4;
  CHECK(whole >= 5 * image);
  CHECK(least < 2 * image);
}

namespace {

// A fake library that calls the CPU's kernels and can add an error. It stores its results in the operands' type.
struct FakeLibrary final : cuda::LibraryConvolution {
  cuda::Convolution what;
  Shapes shapes;
  double error = 0;
  bool refuses = false, waits = true;
  int* runs;

  std::string name() const override { return "a library"; }
  bool may_wait() const override { return waits; }
  bool run(const cuda::ConvolutionOperands& o) override {
    ++*runs;
    if (refuses) return false;
    const auto host = [](const void* p, DType t, const Dims& d) {
      HostTensor h = HostTensor::empty(t, d);
      std::memcpy(h.mutable_data(), p, static_cast<size_t>(h.bytes()));
      return h;
    };
    HostTensor result;
    if (what.kind == cuda::ConvolutionKind::grad_w) {
      result = on_cpu("ConvGradW", {host(o.a, what.type, shapes.x), host(o.b, what.type, shapes.y)},
                      shapes.attrs(shapes.w))[0];
    } else {
      std::vector<HostTensor> in{host(o.a, what.type, shapes.x), host(o.b, what.type, shapes.w)};
      if (what.bias) in.push_back(host(o.bias, *what.bias, {shapes.w[0]}));
      result = on_cpu("Conv", in, shapes.attrs())[0];
    }
    std::vector<double> v = result.to_doubles();
    for (double& x : v) x += error;
    const HostTensor stored = HostTensor::of<double>(result.dims(), v).cast(what.type);
    std::memcpy(o.c, stored.data(), static_cast<size_t>(stored.bytes()));
    return true;
  }
};

struct BehindGuard {
  std::unique_ptr<cuda::EmulatedDevice> device = cuda::make_emulated_device();
  Shapes shapes = valid(kShapes[0]);
  std::vector<HostTensor> in{draw(shapes.x, 1), draw(shapes.w, 2), draw({shapes.w[0]}, 3)};
  HostTensor want = on_cpu("Conv", in, shapes.attrs())[0];
  std::shared_ptr<FakeLibrary> fake = std::make_shared<FakeLibrary>();
  int runs = 0;
  std::ostringstream warnings;

  BehindGuard() {
    fake->shapes = shapes;
    fake->runs = &runs;
    device->library = [this](const cuda::Convolution& c) {
      fake->what = c;
      return fake;
    };
  }
  // Runs the node. std::cerr is redirected only meanwhile, because Catch2 redirects it around assertions.
  HostTensor run(OnDevice& n, const std::vector<HostTensor>& with) {
    std::streambuf* const before = std::cerr.rdbuf(warnings.rdbuf());
    HostTensor out = n.run(with)[0];
    std::cerr.rdbuf(before);
    return out;
  }
  OnDevice node() { return OnDevice(*device, "Conv", in, shapes.attrs(), DType::f32); }
};

}  // namespace

TEST_CASE("a convolution library is used after it has agreed", "[cuda]") {
  BehindGuard g;
  OnDevice node = g.node();
  CHECK(worst(g.run(node, g.in), g.want) < 2e-6);
  CHECK(g.runs == 2);   // runs of the library: once to compare, once for the result
  g.fake->error = 0.5;  // later errors of 0.5 show that the library runs
  CHECK(worst(g.run(node, g.in), g.want) > 0.01);
  CHECK(g.runs == 3);
  CHECK(g.warnings.str().empty());
}

TEST_CASE("a library that differs is dropped with a warning", "[cuda]") {
  BehindGuard g;
  g.fake->error = 0.5;
  OnDevice node = g.node();
  for (int i = 0; i < 3; ++i) CHECK(worst(g.run(node, g.in), g.want) < 2e-6);
  CHECK(g.runs == 1);
  CHECK(g.warnings.str().find("W_LIBRARY: a library is off by 0.5") != std::string::npos);
}

TEST_CASE("a library that refuses to run is dropped with a warning", "[cuda]") {
  BehindGuard g;
  g.fake->refuses = true;
  OnDevice node = g.node();
  for (int i = 0; i < 2; ++i) CHECK(worst(g.run(node, g.in), g.want) < 2e-6);
  CHECK(g.runs == 1);
  CHECK(g.warnings.str().find("refuses to run") != std::string::npos);
}

TEST_CASE("zeros and a recording do not validate a library", "[cuda]") {
  BehindGuard g;
  std::vector<HostTensor> zeros;
  for (const HostTensor& t : g.in) zeros.push_back(HostTensor::zeros(t.dtype(), t.dims()));
  g.fake->error = 0.5;
  g.fake->waits = false;
  OnDevice node = g.node();
  CHECK(worst(g.run(node, g.in), g.want) < 2e-6);
  CHECK(g.runs == 0);
  g.fake->waits = true;
  node.run(zeros);
  node.run(zeros);
  CHECK(g.runs == 2);
  CHECK(worst(g.run(node, g.in), g.want) < 2e-6);
  CHECK(g.runs == 3);
  node.run(g.in);
  CHECK(g.runs == 3);
}

TEST_CASE("a Program is not recorded while its library is not validated", "[cuda]") {
  BehindGuard g;
  const auto graph = std::make_shared<Graph>();
  Builder b(*graph, cpu_evaluator());
  const ValueId x = graph->add_input("x", DType::f32, g.shapes.x), w = graph->add_input("w", DType::f32, g.shapes.w);
  graph->outputs.push_back({"y", b.op("Conv", {x, w}, g.shapes.attrs())});
  const auto arena = g.device->make_arena();
  const RunState state;
  ProgramOptions o;
  o.device = g.device.get();
  o.arena = arena.get();
  o.state = &state;
  Program p(graph, o);
  p.set_input("w", g.in[1]);
  g.device->keep_events(true);
  const auto records = [&] {
    return std::count_if(g.device->events().begin(), g.device->events().end(),
                         [](const cuda::Event& e) { return e.kind == cuda::Event::record; });
  };
  const auto run = [&](const HostTensor& with) {
    p.set_input("x", with);
    p.run();
  };
  const HostTensor zeros = HostTensor::zeros(DType::f32, g.shapes.x);
  for (int i = 0; i < 3; ++i) run(zeros);
  CHECK(records() == 0);
  run(g.in[0]);  // the library is validated here
  CHECK(records() == 0);
  const int runs = g.runs;
  run(g.in[0]);
  CHECK(records() == 1);
  CHECK(g.runs == runs + 1);

  Program always_zero(graph, o);  // is recorded as a CUDA graph, too, after more runs
  always_zero.set_input("w", g.in[1]);
  for (int i = 0; i < 20; ++i) {
    always_zero.set_input("x", zeros);
    always_zero.run();
  }
  CHECK(records() == 2);
}

namespace {

struct WeightGradient : BehindGuard {
  HostTensor x, dy, exact;
  explicit WeightGradient(DType type, double scale = 1)
      : x(draw(shapes.x, 1, type)), dy(scaled(draw(shapes.y, 2, DType::f32), scale).cast(type)) {
    exact = on_cpu("ConvGradW", {x, dy}, shapes.attrs(shapes.w))[0];
  }
  static HostTensor scaled(const HostTensor& t, double by) {
    std::vector<double> v = t.to_doubles();
    for (double& d : v) d *= by;
    return HostTensor::of<double>(t.dims(), v);
  }
  OnDevice node() { return OnDevice(*device, "ConvGradW", {x, dy}, shapes.attrs(shapes.w), DType::f32); }
};

}  // namespace

// Rounding an fp32 sum to 16 bits has an error of half a unit in the last place: relative 2^-11 in fp16, 2^-8 in bf16.
TEST_CASE("a library's weight gradient in 16 bits is widened to fp32", "[cuda]") {
  for (const DType type : {DType::f16, DType::bf16}) {
    INFO(name_of(type));
    WeightGradient g(type);
    OnDevice node = g.node();
    const HostTensor have = g.run(node, {g.x, g.dy});
    CHECK(g.runs == 2);  // runs of the library: once to compare, once for the result
    CHECK(g.warnings.str().empty());
    REQUIRE(have.dtype() == DType::f32);
    const HostTensor rounded = g.exact.cast(type).cast(DType::f32);
    CHECK(worst(have, rounded) < 2 * (type == DType::f16 ? 4.9e-4 : 3.9e-3));
    const std::vector<double> v = have.to_doubles();
    CHECK(have.cast(type).cast(DType::f32).to_doubles() == v);  // 16-bit numbers: they come from the library
  }
}

TEST_CASE("a library's wrong weight gradient in 16 bits is dropped", "[cuda]") {
  WeightGradient g(DType::bf16);
  double largest = 0;
  for (const double v : g.exact.to_doubles()) largest = std::max(largest, std::abs(v));
  g.fake->error = 0.1 * largest;
  OnDevice node = g.node();
  for (int i = 0; i < 2; ++i) CHECK(worst(g.run(node, {g.x, g.dy}), g.exact) < 2e-6);
  CHECK(g.runs == 1);
  CHECK(g.warnings.str().find("(gradient of its weight), bfloat16") != std::string::npos);
}

TEST_CASE("a weight gradient that overflows fp16 does not validate a library", "[cuda]") {
  WeightGradient g(DType::f16, 1e4);
  double largest = 0;
  for (const double v : g.exact.to_doubles()) largest = std::max(largest, std::abs(v));
  REQUIRE(largest > 65504);
  OnDevice node = g.node();
  CHECK(worst(g.run(node, {g.x, g.dy}), g.exact) < 2e-6);
  CHECK(g.warnings.str().empty());
  CHECK(g.runs == 1);
  const WeightGradient usual(DType::f16);
  g.run(node, {usual.x, usual.dy});
  CHECK(g.runs == 3);  // runs of the library: once to compare, twice for results
}
