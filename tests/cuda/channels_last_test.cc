// Operators in NHWC layout (ops/passes/channels_last.h) on the emulated device against the CPU's in NCHW layout.
#include "ops/passes/channels_last.h"

#include <catch2/catch_all.hpp>

#include "backend/channels_last.h"
#include "graph/op.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

HostTensor last_of(const HostTensor& t) {
  Dims d = t.dims();
  d.insert(d.begin(), 4 - d.size(), 1);
  return on_cpu("Transpose", {t.reshaped(d)}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}})[0].cast(t.dtype());
}

struct Case {
  const char* op;
  std::vector<HostTensor> in;
  Attrs attrs;
};

ChannelsLastForm form_of(const Case& c) {
  Graph g;
  std::vector<ValueId> in;
  for (const HostTensor& t : c.in) in.push_back(t ? g.add_input("in", t.dtype(), t.dims()) : ValueId{});
  const NodeId n = g.add_node(core_op(c.op), in, c.attrs, {});
  const auto form = channels_last_form(g, g.node(n), true);
  REQUIRE(form.has_value());
  return *form;
}

// Compares the node in channels-last layout with `want`, the results in channels-first layout.
void check_against(const Case& c, const std::vector<HostTensor>& want, std::optional<DType> stored, double tolerance) {
  const auto device = cuda::make_emulated_device();
  const ChannelsLastForm form = form_of(c);
  std::vector<HostTensor> in;
  for (size_t i = 0; i < c.in.size(); ++i) in.push_back(form.in[i] ? last_of(c.in[i]) : c.in[i]);
  OnDevice node(*device, c.op, in, form.attrs, stored);
  const std::vector<HostTensor> got = node.run(in);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const HostTensor there = form.out[i] ? last_of(want[i]) : want[i];
    REQUIRE(got[i].dims() == there.dims());
    if (tolerance == 0)
      CHECK(same_bits(got[i], there));
    else
      CHECK(worst(got[i], there) < tolerance);
  }
}
void check_cpu(const Case& c, std::optional<DType> stored, double tolerance) {
  check_against(c, on_cpu(c.op, c.in, c.attrs), stored, tolerance);
}
// Checks nodes with an unchanged order of sums: the bits equal those of the device's channels-first kernels.
void check_bits(const Case& c) {
  const auto device = cuda::make_emulated_device();
  OnDevice node(*device, c.op, c.in, c.attrs, std::nullopt);
  check_against(c, node.run(c.in), std::nullopt, 0);
}

struct Window {
  Dims x, w, y;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group = 1;
  Attrs attrs(const Dims& dims = {}) const {
    Attrs a{{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
    if (!dims.empty()) a.set("dims", dims);
    return a;
  }
};
const Window kWindows[] = {{{5, 6, 9, 8}, {8, 6, 3, 3}, {5, 8, 5, 8}, {2, 1}, {1, 1}, {1, 1, 1, 1}},
                           {{3, 8, 7, 9}, {12, 4, 3, 2}, {3, 12, 5, 7}, {1, 1}, {1, 2}, {0, 0, 0, 0}, 2},
                           {{3, 8, 6, 6}, {8, 8, 1, 1}, {3, 8, 6, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                           {{3, 8, 6, 6}, {12, 4, 1, 1}, {3, 12, 6, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 2},
                           {{2, 3, 17, 13}, {5, 3, 7, 7}, {2, 5, 9, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
                           {{2, 3, 1, 20}, {4, 3, 1, 5}, {2, 4, 1, 20}, {1, 1}, {1, 1}, {0, 2, 0, 2}}};

}  // namespace

// The tolerances are those of channels-first layout (convolution_test.cc), because sums are fp32 in both.
TEST_CASE("CUDA convolutions with channels last are the CPU's", "[cuda][channels_last]") {
  for (const Window& s : kWindows) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const HostTensor x = draw(s.x, 1, type), w = draw(s.w, 2, type), dy = draw(s.y, 3, type),
                       bias = draw({s.w[0]}, 4, type);
      for (const DType out : {type, DType::f32}) {
        for (const int64_t limit : {int64_t{1} << 28, int64_t{9000}, int64_t{1}}) {
          INFO(to_string(s.x) << " with " << to_string(s.w) << " in " << name_of(type) << " to " << name_of(out) << ", "
                              << limit << " bytes of columns");
          const auto limited = [&](Attrs a) {
            a.set("column_bytes", limit);
            return a;
          };
          const double tolerance = out == DType::f32 ? 2e-6 : out == DType::f16 ? 1e-3 : 8e-3;
          check_cpu({"Conv", {x, w, bias}, limited(s.attrs())}, out, tolerance);
          check_cpu({"Conv", {x, w}, limited(s.attrs())}, out, tolerance);
          check_cpu({"ConvGradX", {dy, w}, limited(s.attrs(s.x))}, out, tolerance);
          check_cpu({"ConvGradW", {x, dy}, limited(s.attrs(s.w))}, out, tolerance);
        }
      }
    }
  }
}

TEST_CASE("CUDA batch normalization with channels last is the CPU's", "[cuda][channels_last]") {
  const int64_t channels = GENERATE(1, 3, 8, 130, 256);
  const DType type = GENERATE(DType::f32, DType::bf16);
  const Dims dims{3, channels, 9, 7};
  const HostTensor x = draw(dims, 1, type), dy = draw(dims, 2, type), scale = draw({channels}, 3),
                   bias = draw({channels}, 4), mean = draw({channels}, 5),
                   var = on_cpu("Mul", {draw({channels}, 6), draw({channels}, 6)}, {})[0].cast(DType::f32);
  const Attrs attrs{{"epsilon", 1e-3}};
  const double tolerance = type == DType::f32 ? 3e-6 : 8e-3;
  check_cpu({"BatchNorm", {x, scale, bias, mean, var}, attrs}, std::nullopt, tolerance);
  check_cpu({"BatchNormTrain", {x, scale, bias}, attrs}, std::nullopt, tolerance);
  for (const int64_t train : {0, 1}) {
    const Attrs with{{"epsilon", 1e-3}, {"train", train}};
    check_cpu({"BatchNormGrad", {dy, x, scale, mean, var}, with}, std::nullopt, tolerance);
  }
}

TEST_CASE("CUDA pools with channels last have the bits of those with channels first", "[cuda][channels_last]") {
  const int64_t channels = GENERATE(1, 5, 64);
  const DType type = GENERATE(DType::f32, DType::f16);
  const Dims in{2, channels, 9, 8}, out{2, channels, 5, 4};
  Attrs a{{"kernel", Dims{3, 2}},     {"strides", Dims{2, 2}},           {"dilations", Dims{1, 1}},
          {"pads", Dims{1, 0, 1, 0}}, {"count_include_pad", int64_t{0}}, {"dims", out}};
  const HostTensor x = draw(in, 1, type), dy = draw(out, 2, type);
  check_bits({"MaxPool", {x}, a});
  check_bits({"AveragePool", {x}, a});
  const HostTensor taps = on_cpu("MaxPool", {x}, a)[1];
  a.set("dims", in);
  check_bits({"MaxPoolGrad", {dy, taps}, a});
  check_bits({"AveragePoolGrad", {dy}, a});

  const Attrs all{{"kernel", Dims{9, 8}}, {"strides", Dims{1, 1}},           {"dilations", Dims{1, 1}},
                  {"pads", Dims(4, 0)},   {"count_include_pad", int64_t{0}}, {"dims", Dims{2, channels, 1, 1}}};
  check_cpu({"AveragePool", {x}, all}, std::nullopt, type == DType::f32 ? 2e-6 : 1e-3);
}

TEST_CASE("elementwise and moving operators give the same elements in channels-last layout", "[cuda][channels_last]") {
  const HostTensor x = draw({2, 6, 5, 7}, 1), y = draw({2, 6, 5, 7}, 2), row = draw({7}, 3),
                   channel = draw({6, 1, 1}, 4), scalar = draw({}, 5);
  for (const HostTensor& other : {y, row, channel, scalar}) check_bits({"Mul", {x, other}, {}});
  check_bits({"Relu", {x}, {}});
  for (const int64_t axis : {0, 1, 2, 3}) {
    check_bits({"Concat", {x, y}, {{"axis", axis}}});
    check_cpu({"ReduceSum", {x}, {{"axes", Dims{axis}}, {"keepdims", int64_t{1}}}}, std::nullopt, 1e-6);
  }
  check_cpu({"ReduceSum", {x}, {{"axes", Dims{2, 3}}, {"keepdims", int64_t{0}}}}, std::nullopt, 1e-6);
  const Attrs cut{{"starts", Dims{0, 1, 2, 0}}, {"steps", Dims{1, 2, 1, 3}}, {"dims", Dims{2, 2, 3, 3}}};
  check_bits({"Slice", {x}, cut});
  Attrs put = cut;
  put.set("full", x.dims());
  check_bits({"SliceGrad", {draw({2, 2, 3, 3}, 6)}, put});
  check_bits({"Expand", {draw({1, 6, 1, 1}, 7)}, {{"dims", Dims{2, 6, 5, 7}}}});
  check_bits({"AxisMap",
              {x},
              {{"axis", int64_t{2}},
               {"begin", Dims{0, 1, 3, 4}},
               {"index", Dims{4, 0, 1, 3}},
               {"weight", std::vector<double>{1, 0.25, 0.75, 1}}}});
}

TEST_CASE("the bits of Dropout do not depend on the layout", "[cuda][channels_last]") {
  const int64_t rows = GENERATE(1, 3, 9);  // numbers of dropout samples; may differ from the number of images
  for (const DType type : {DType::f32, DType::bf16}) {
    check_bits({"Dropout", {draw({3, 6, 5, 7}, 1, type)}, {{"ratio", 0.4}, {"site", int64_t{7}}, {"rows", rows}}});
  }
}
