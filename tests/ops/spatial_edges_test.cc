// Cases that the golden data of spatial_test.cc do not contain: NaN, malformed attributes, Programs, larger
// convolutions.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>

#include "backend/interpreter.h"
#include "backend/program.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "tests/ops/one_node.h"

using namespace amp;

namespace {

HostTensor with(HostTensor t, size_t at, double v) {
  std::vector<double> x = t.to_doubles();
  x.at(at) = v;
  return HostTensor::of(t.dims(), x);
}

Attrs conv_attrs(int64_t stride, int64_t pad, int64_t group) {
  return {{"strides", Dims{stride, stride}}, {"dilations", Dims{1, 1}}, {"pads", Dims(4, pad)}, {"group", group}};
}

}  // namespace

TEST_CASE("MaxPool lets NaN through") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType t : {DType::f32, DType::f64}) {
    for (const size_t at : {0u, 5u, 27u, 48u}) {
      const OneNode n{"MaxPool",
                      17,
                      {{"kernel_shape", Dims{3, 3}}, {"pads", Dims{1, 1, 1, 1}}},
                      {with(random_tensor({1, 1, 7, 7}, 1), at, nan)},
                      1,
                      false};
      const std::vector<double> y = run_node(n, {}, {}, t).outputs[0].to_doubles();
      for (int64_t i = 0; i < 49; ++i) {
        const int64_t p = static_cast<int64_t>(at), dh = i / 7 - p / 7, dw = i % 7 - p % 7;
        INFO("NaN at " << at << ", output " << i);
        CHECK(std::isnan(y[static_cast<size_t>(i)]) == (std::abs(dh) <= 1 && std::abs(dw) <= 1));
      }
    }
  }
}

TEST_CASE("MaxPool of -inf gives -inf, and its gradient to an element of the window") {
  const HostTensor x =
      HostTensor::of<double>({1, 1, 2, 4}, std::vector<double>(8, -std::numeric_limits<double>::infinity()));
  const HostTensor dy = HostTensor::of<double>({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const OneNode n{"MaxPool", 17, {{"kernel_shape", Dims{2, 3}}, {"pads", Dims{1, 1, 0, 0}}}, {x}, 1, false};
  const NodeRun r = run_node(n, dy, {0}, DType::f32);
  double sum = 0;
  for (const double g : r.grads.at(0).to_doubles()) sum += g;
  CHECK(sum == 21);
  for (const double y : r.outputs[0].to_doubles()) CHECK(y == -std::numeric_limits<double>::infinity());
}

// PyTorch gives the same results.
TEST_CASE("a batch normalization of no sample leaves the running statistics, and has no NaN") {
  OneNode n;
  n.op = "BatchNormalization";
  n.version = 15;
  n.attrs = {{"training_mode", int64_t{1}}};
  n.n_outputs = 3;
  n.batchnorm_train = true;
  const HostTensor mean = random_tensor({4}, 3), var = HostTensor::of<double>({4}, {1, 2, 3, 4});
  for (const Dims& d : {Dims{0, 4}, Dims{2, 4, 0}}) {
    n.inputs = {random_tensor(d, 1), random_tensor({4}, 2), random_tensor({4}, 4), mean, var};
    const NodeRun r = run_node(n, random_tensor(d, 5), {1, 2}, DType::f64);
    CHECK(same_bits(r.outputs[1], mean));
    CHECK(same_bits(r.outputs[2], var));
    for (const size_t i : {size_t{1}, size_t{2}}) CHECK(r.grads.at(i).to_doubles() == std::vector<double>(4, 0.0));
  }
}

TEST_CASE("malformed spatial attributes are model errors that name the value") {
  const HostTensor x = random_tensor({1, 4, 5, 5}, 1), w = random_tensor({6, 4, 3, 3}, 2);
  const auto error_of = [](const OneNode& n) -> std::string {
    try {
      run_node(n, {}, {}, DType::f32);
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::model);
      return e.what();
    }
    return "no error";
  };
  using Catch::Matchers::ContainsSubstring;
  const auto conv = [&](Attrs a) { return error_of({"Conv", 17, std::move(a), {x, w}, 1, false}); };
  CHECK_THAT(conv({{"strides", Dims{0, 1}}}), ContainsSubstring("strides [0,1]"));
  CHECK_THAT(conv({{"dilations", Dims{1}}}), ContainsSubstring("dilations [1] should have 2"));
  CHECK_THAT(conv({{"group", int64_t{0}}}), ContainsSubstring("group 0"));
  CHECK_THAT(conv({{"group", int64_t{3}}}), ContainsSubstring("in 3 groups"));
  CHECK_THAT(conv({{"kernel_shape", Dims{3, 2}}}), ContainsSubstring("kernel_shape [3,2]"));
  CHECK_THAT(conv({{"pads", Dims{-1, 0, 0, 0}}}), ContainsSubstring("pads [-1,0,0,0]"));
  CHECK_THAT(conv({{"auto_pad", std::string("SAME")}}), ContainsSubstring("auto_pad 'SAME'"));
  CHECK_THAT(conv({{"dilations", Dims{3, 3}}}), ContainsSubstring("window of 7 does not fit"));
  CHECK_THAT(error_of({"Conv", 17, {}, {x, random_tensor({6, 4, 3}, 2)}, 1, false}),
             ContainsSubstring("ranks must be equal"));
  CHECK_THAT(error_of({"MaxPool", 17, {}, {x}, 1, false}), ContainsSubstring("kernel_shape"));
  CHECK_THAT(error_of({"AveragePool", 17, {{"kernel_shape", Dims{2, 2}}, {"pads", Dims{2, 0, 0, 0}}}, {x}, 1, false}),
             ContainsSubstring("padding 2"));
  CHECK_THAT(error_of({"ConvTranspose", 17, {}, {x, random_tensor({3, 2, 2, 2}, 2)}, 1, false}),
             ContainsSubstring("ConvTranspose of"));
}

// Sizes that use every register tile, chunk and form of the direct kernels. The references are computed by plain loops
// in fp64.
TEST_CASE("direct convolutions equal the plain loops") {
  struct Size {
    Dims x, w;
    int64_t stride, pad, group;
  };
  const Size sizes[] = {{{3, 5, 40, 50}, {13, 5, 3, 3}, 1, 1, 1}, {{2, 3, 50, 47}, {17, 3, 7, 7}, 2, 3, 1},
                        {{2, 64, 7, 7}, {70, 64, 3, 3}, 1, 1, 1}, {{1, 48, 9, 9}, {112, 48, 1, 1}, 2, 0, 1},
                        {{5, 32, 6, 6}, {64, 16, 3, 3}, 2, 1, 2}, {{18, 1, 12, 12}, {6, 1, 5, 5}, 1, 2, 1},
                        {{1, 3, 32, 32}, {24, 3, 8, 8}, 8, 0, 1}, {{2, 70, 5, 5}, {70, 1, 3, 3}, 1, 1, 70},
                        {{0, 3, 8, 8}, {4, 3, 3, 3}, 1, 1, 1}};
  for (const Size& s : sizes) {
    Attrs a = conv_attrs(s.stride, s.pad, s.group);
    DYNAMIC_SECTION(to_string(s.x) << " * " << to_string(s.w)) {
      const OneNode n{"Conv", 17,   a, {random_tensor(s.x, 1), random_tensor(s.w, 2), random_tensor({s.w[0]}, 3)},
                      1,      false};
      const HostTensor dy = random_tensor(run_node(n, {}, {}, DType::f64).outputs[0].dims(), 4);
      const NodeRun want = run_node(n, dy, {0, 1, 2}, DType::f64), got = run_node(n, dy, {0, 1, 2}, DType::f32);
      CHECK(distance(got.outputs[0], want.outputs[0]) < 3e-5);
      for (const size_t i : {0u, 1u, 2u}) {
        INFO("gradient of input " << i);
        CHECK(distance(got.grads.at(i), want.grads.at(i)) < 1e-4);
      }
    }
  }
}

// A Program shares memory between workspaces and activations, so this test fills freed memory with NaN.
TEST_CASE("a small convolutional network runs as a Program as it is interpreted") {
  auto g = std::make_shared<Graph>();
  Builder b(*g, cpu_evaluator());
  const DType t = DType::f32;
  const ValueId x = g->add_input("x", t, {4, 1, 12, 12}), dy = g->add_input("dy", t, {4, 8, 2, 2});
  const std::vector<HostTensor> params{random_tensor({4, 1, 3, 3}, 1), random_tensor({4}, 2), random_tensor({4}, 3),
                                       random_tensor({4}, 4), random_tensor({8, 4, 3, 3}, 5)};
  std::vector<ValueId> p;
  std::vector<HostTensor> f32, grads;
  for (size_t i = 0; i < params.size(); ++i) {
    p.push_back(g->add_param(static_cast<int>(i), "p", t, params[i].dims()));
    f32.push_back(params[i].cast(t));
    grads.push_back(HostTensor::zeros(t, params[i].dims()));
  }
  const auto pool = [](Dims dims) {
    return Attrs{{"kernel", Dims{2, 2}},
                 {"strides", Dims{2, 2}},
                 {"dilations", Dims{1, 1}},
                 {"pads", Dims(4, 0)},
                 {"dims", std::move(dims)}};
  };
  ValueId h = b.op("Conv", {x, p[0], p[1]}, conv_attrs(1, 1, 1));
  h = b.ops("BatchNormTrain", {h, p[2], p[3]}, {{"epsilon", 1e-5}})[0];
  h = b.ops("MaxPool", {h}, pool({4, 4, 6, 6}))[0];
  h = b.op("AveragePool", {b.op("Conv", {h, p[4]}, conv_attrs(1, 0, 1))}, pool({4, 8, 2, 2}));
  g->outputs.push_back({"y", h});
  Autodiff ad(b, p);
  ad.seed(h, dy);
  ad.run();
  for (size_t i = 0; i < p.size(); ++i) g->param_grads.push_back({static_cast<int>(i), ad.grad(p[i])});

  const HostTensor xv = random_tensor({4, 1, 12, 12}, 6).cast(t), dyv = random_tensor({4, 8, 2, 2}, 7).cast(t);
  const Interpreted want = interpret(*g, {{"x", xv}, {"dy", dyv}}, f32);
  HostArena arena;
  ProgramOptions o;
  o.arena = &arena;
  o.poison = true;
  for (size_t i = 0; i < params.size(); ++i) {
    o.params.push_back({f32[i].mutable_data(), t, f32[i].dims()});
    o.grads.push_back({grads[i].mutable_data(), t, grads[i].dims()});
  }
  Program program(g, o);
  for (int run = 0; run < 2; ++run) {
    program.set_input("x", xv);
    program.set_input("dy", dyv);
    program.run();
    const Tensor& y = program.output("y");
    CHECK(same_bits(HostTensor(t, y.dims, nullptr, y.data), want.outputs.at("y")));
    for (size_t i = 0; i < params.size(); ++i) CHECK(same_bits(grads[i], want.param_grads.at(static_cast<int>(i))));
  }
}
