// Cases in which onnx.reference and the engines differ: onnxruntime 1.31's results are required
// (bench/engine_operators.py compares all combinations). The expected numbers are onnxruntime's, and PyTorch's if it
// has the operator.
#include <catch2/catch_all.hpp>

#include "base/error.h"
#include "tests/ops/one_node.h"

using namespace amp;

namespace {

HostTensor real(Dims d, const std::vector<double>& v) { return HostTensor::of<double>(std::move(d), v); }
HostTensor ints(Dims d, const std::vector<int64_t>& v) { return HostTensor::of<int64_t>(std::move(d), v); }
std::string text(const char* s) { return s; }
const char* const kTransform = "coordinate_transformation_mode";

struct Case {
  const char* name;
  OneNode node;
  HostTensor want;
};

std::vector<Case> cases() {
  return {{"align_corners with a fractional scale",
           {"Resize",
            13,
            {{"mode", text("linear")}, {kTransform, text("align_corners")}},
            {real({1, 1, 7}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99, 0.06}), HostTensor{}, real({3}, {1.0, 1.0, 1.7})}},
           real({1, 1, 11}, {0.0, 0.18, 0.186, -0.156, -0.518, -0.89, -0.626, -0.558, -0.882, -0.57, 0.06})},
          {"a length that rounds up in fp32",
           {"Resize",
            13,
            {{"mode", text("nearest")}, {kTransform, text("asymmetric")}, {"nearest_mode", text("floor")}},
            {real({1, 1, 10}, {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}), HostTensor{},
             real({3}, {1.0, 1.0, 0.7})}},
           real({1, 1, 7}, {0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0})},
          {"one output in pytorch_half_pixel",
           {"Resize",
            13,
            {{"mode", text("cubic")}, {kTransform, text("pytorch_half_pixel")}},
            {real({1, 1, 3, 4}, {1.34, -0.49, -0.62, 0.49, 0.36, 0.11, -0.93, -0.03, 0.7, -1.34, -0.46, -1.9}),
             HostTensor{}, HostTensor{}, ints({4}, {1, 1, 1, 3})}},
           real({1, 1, 1, 3}, {1.079618, -0.830625, 0.328438})},
          {"an axis that keeps its length is not cropped",
           {"Resize",
            13,
            {{"mode", text("linear")}, {kTransform, text("tf_crop_and_resize")}},
            {real({1, 1, 3, 4}, {1.34, -0.49, -0.62, 0.49, 0.36, 0.11, -0.93, -0.03, 0.7, -1.34, -0.46, -1.9}),
             real({8}, {0.0, 0.0, 0.2, 0.2, 1.0, 1.0, 0.9, 0.9}), HostTensor{}, ints({4}, {1, 1, 2, 4})}},
           real({1, 1, 2, 4}, {0.948, -0.25, -0.744, 0.282, 0.632, -1.05, -0.554, -1.526})},
          {"a tensor that keeps its size",
           {"Resize",
            13,
            {{"mode", text("linear")}, {kTransform, text("half_pixel")}},
            {real({1, 1, 7}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99, 0.06}), HostTensor{}, real({3}, {1.0, 1.0, 1.1})}},
           real({1, 1, 7}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99, 0.06})},
          {"an antialiased axis that keeps its length",
           {"Resize",
            18,
            {{"mode", text("linear")}, {kTransform, text("half_pixel")}, {"antialias", int64_t{1}}},
            {real({1, 1, 3, 4}, {1.34, -0.49, -0.62, 0.49, 0.36, 0.11, -0.93, -0.03, 0.7, -1.34, -0.46, -1.9}),
             HostTensor{}, real({4}, {1.0, 1.0, 0.7, 1.2})}},
           real({1, 1, 2, 4}, {1.035862, -0.303793, -0.716207, 0.328621, 0.561481, -0.749259, -0.651482, -1.138148})},
          {"nearest of opset 10 takes the ceiling where it shrinks",
           {"Resize",
            10,
            {{"mode", text("nearest")}},
            {real({1, 1, 7}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99, 0.06}), real({3}, {1.0, 1.0, 0.6})}},
           real({1, 1, 4}, {0.0, -0.27, -0.45, -0.99})},
          {"the channel axis is not moved",
           {"Resize",
            11,
            {{"mode", text("linear")}, {kTransform, text("tf_half_pixel_for_nn")}},
            {real({1, 2, 3}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99}), real({0}, {}), real({3}, {1.0, 1.0, 2.0})}},
           real({1, 2, 6}, {0.075, 0.225, 0.1575, -0.1275, -0.27, -0.27, -0.78, -0.56, -0.585, -0.855, -0.99, -0.99})},
          {"taps of a cubic are clamped, not its point",
           {"GridSample",
            16,
            {{"mode", text("bicubic")}, {"padding_mode", text("border")}},
            {real({1, 1, 3, 4}, {1.34, -0.49, -0.62, 0.49, 0.36, 0.11, -0.93, -0.03, 0.7, -1.34, -0.46, -1.9}),
             real({1, 1, 3, 2}, {-1.3, -0.8, 0.2, 1.4, 0.95, -1.1})}},
           real({1, 1, 1, 3}, {1.434081, -0.45845, 0.642289})},
          {"SAME_UPPER of a dilated pool",
           {"AveragePool",
            19,
            {{"kernel_shape", Dims{2}}, {"dilations", Dims{3}}, {"auto_pad", text("SAME_UPPER")}},
            {real({1, 1, 7}, {0.0, 0.3, -0.27, -0.89, -0.45, -0.99, 0.06})}},
           real({1, 1, 5}, {-0.445, -0.075, -0.63, -0.415, -0.45})},
          {"a window that hangs over its whole axis",
           {"MaxPool",
            12,
            {{"kernel_shape", Dims{4, 2}}, {"strides", Dims{2, 1}}, {"ceil_mode", int64_t{1}}},
            {real({1, 1, 3, 4}, {1.34, -0.49, -0.62, 0.49, 0.36, 0.11, -0.93, -0.03, 0.7, -1.34, -0.46, -1.9})}},
           real({1, 1, 1, 3}, {1.34, 0.11, 0.49})}};
}

}  // namespace

TEST_CASE("where reference and engines differ, operators follow onnxruntime") {
  for (Case& c : cases()) {
    DYNAMIC_SECTION(c.name) {
      if (c.node.op == "Resize") c.node.fixed = {1, 2};
      for (const DType t : {DType::f32, DType::f64}) {
        const HostTensor got = run_node(c.node, {}, {}, t).outputs.at(0);
        CHECK(distance(got.cast(DType::f64), c.want) < 2e-6);  // the wanted numbers have six digits
      }
    }
  }
}
