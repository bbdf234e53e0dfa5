// Checks without a GPU that cuDNN supports the convolutions of common models, forward and both gradients.
#include "backend/cuda/convolution.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <set>

#include "bench/roofline/roofline.h"
#include "models/architecture.h"
#include "tests/cudnn/described.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;
using cuda::Convolution;
using cuda::ConvolutionKind;

namespace {

// Checks the plans of every convolution of a model, as in its NHWC region and as a separate node.
void require_plans(const std::string& model, const StepWork& work, std::set<std::string>& seen) {
  INFO(model);
  for (const Convolution& asked : work.convolutions) {
    for (const bool last : {asked.channels_last, false}) {
      Convolution what = asked;
      what.channels_last = last;
      if (!seen.insert(key_of(what)).second) continue;
      INFO(key_of(what));
      CHECK(refusal_of(what) == "");
      if (what.type == DType::f32) CHECK(refusal_of(what, true) == "");
    }
  }
}

int kinds(const StepWork& work) {
  std::set<ConvolutionKind> found;
  for (const Convolution& c : work.convolutions) found.insert(c.kind);
  return static_cast<int>(found.size());
}

StepWork resnet(const std::string& name, int64_t batch, DType low) {
  const Architecture& a = architecture(name);
  DrawnWeights weights(1);
  Net net(name, weights);
  a.build(net, ModelConfig(std::string(a.config), name), Head::image_classification);
  ModelRequest r;
  r.source = net.graph();
  r.batch = {{"pixel_values", HostTensor::zeros(DType::f32, {batch, 3, 224, 224})},
             {"label", HostTensor::zeros(DType::i64, {batch})}};
  r.batch_statistics = true;
  r.low = low;
  return step_work(r);
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

Convolution plain(ConvolutionKind kind, DType type, WindowAxis height, WindowAxis width) {
  Convolution c{kind, {4, 1, 16, 24, {}}, type, std::nullopt, false};
  c.shape.window = {WindowAxis{}, height, width};
  return c;
}

}  // namespace

TEST_CASE("cuDNN plans the convolutions of the zoo for an H100", "[cudnn]") {
  skip_without_described_devices();
  std::set<std::string> seen;
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_root() + "/tests/data/zoo")) {
    if (!std::filesystem::exists(entry.path() / "model.onnx")) continue;
    const Golden g(entry.path());
    for (const DType low : kTypes) {
      const StepWork work = step_work(ModelRequest{g.model.graph, g.batch, g.loss, g.batch_statistics, low, {}});
      if (low == DType::bf16 && kinds(work) == 3) ++models;
      require_plans(g.name, work, seen);
    }
  }
  CHECK(models >= 4);  // the models are LeNet, ResNet, ConvNeXt and U-Net
}

TEST_CASE("cuDNN plans the convolutions of U-Net and ResNet for an H100", "[cudnn]") {
  skip_without_described_devices();
  std::set<std::string> seen;
  for (const DType low : kTypes) {
    UnetRequest unet;
    unet.batch = 8;
    unet.low = low;
    unet.model.width = 32;
    const StepWork work = step_work(unet);
    CHECK(kinds(work) == 3);
    require_plans("U-Net, 256 x 256", work, seen);
    require_plans("ResNet-18", resnet("resnet18", 64, low), seen);
    require_plans("ResNet-50", resnet("resnet50", 64, low), seen);
  }
}

TEST_CASE("cuDNN plans a 16-bit weight gradient with sums in fp32", "[cudnn]") {
  skip_without_described_devices();
  const WindowAxis axis{32, 32, 3, 1, 1, 1, 1};
  for (const DType type : {DType::f16, DType::bf16}) {
    const Convolution what = plain(ConvolutionKind::grad_w, type, axis, axis);
    CHECK(refusal_of(what) == "");
  }
}

TEST_CASE("cuDNN plans convolutions with odd windows, groups and biases for an H100", "[cudnn]") {
  skip_without_described_devices();
  const WindowAxis same{32, 16, 3, 2, 1, 0, 1};       // SAME_UPPER: padding only at the end
  const WindowAxis left_over{32, 15, 3, 2, 1, 0, 0};  // the last column of the input is not read
  const WindowAxis dilated{40, 36, 3, 1, 2, 0, 0}, line{1, 1, 1, 1, 1, 0, 0};
  for (const DType type : kTypes) {
    for (const auto kind : {ConvolutionKind::forward, ConvolutionKind::grad_x, ConvolutionKind::grad_w}) {
      for (const auto& [height, width] :
           {std::pair{same, same}, {left_over, left_over}, {dilated, dilated}, {line, dilated}}) {
        for (const bool last : {false, true}) {
          Convolution what = plain(kind, type, height, width);
          what.channels_last = last;
          const auto check_plan = [&] {
            INFO(key_of(what));
            CHECK(refusal_of(what) == "");
          };
          if (kind == ConvolutionKind::forward) what.bias = type;
          check_plan();
          what.shape.groups = 4;
          check_plan();
          if (!what.bias || !last) continue;  // with channels first, the bias must have the operands' type
          what.bias = DType::f32;
          check_plan();
        }
      }
    }
  }
}

TEST_CASE("a convolution that cuDNN does not support is refused without a device", "[cudnn]") {
  skip_without_described_devices();
  const WindowAxis axis{32, 32, 3, 1, 1, 1, 1};
  Convolution what = plain(ConvolutionKind::forward, DType::bf16, axis, axis);
  REQUIRE(refusal_of(what) == "");
  SECTION("an output that the window cannot produce") { what.shape.window[2].out = 20; }
  SECTION("more elements than it can address") { what.shape.n = int64_t{1} << 24; }
  CHECK(!refusal_of(what).empty());
}
