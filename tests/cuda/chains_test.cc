// NHWC regions (ops/passes/channels_last.h) in whole models: training results, and the requests to a library.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>

#include "backend/channels_last.h"
#include "backend/cuda/convolution.h"
#include "backend/interpreter.h"
#include "ops/passes/channels_last.h"
#include "tests/cuda/trained.h"
#include "tests/emulator/emulated_device.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::vector<std::string> kConvolutional{"lenet_relu_dyn18", "resnet_train_ts17", "unet_convt_ce_dyn18"};

Golden golden(const std::string& name) { return Golden(test_data() + "/zoo/" + name); }

double distance(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += std::abs(double{a.as<float>()[i]} - double{b.as<float>()[i]});
  return sum / static_cast<double>(a.numel());
}

// Counts the nodes of an operator by layout. Nodes with one spatial position are skipped: both layouts are equal.
int64_t count(const Graph& g, const std::string& op, bool last) {
  int64_t n = 0;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& node = g.node(NodeId{i});
    if (node.op->name != op || has_channels_last(node.attrs) != last) continue;
    const Dims& d = g.value(node.in[0]).dims;
    n += last ? d[1] * d[2] > 1 : d[2] * d[3] > 1;
  }
  return n;
}

}  // namespace

// Regions are formed as with TF32, but products are computed in fp32, so results can be compared with PyTorch's.
TEST_CASE("models with NHWC regions agree with PyTorch", "[cuda][channels_last]") {
  const auto device = cuda::make_emulated_device();
  device->chains_fp32 = true;
  for (const char* name : {"lenet_relu_dyn18", "resnet_train_ts17", "unet_convt_ce_dyn18", "convnext_ts17"}) {
    DYNAMIC_SECTION(name) {
      const Golden g = golden(name);
      check_gradients(g, *device);
      for (const auto& [method, run] : g.runs) check_trajectory(g, method, *device);
    }
  }
}

// The different order of sums changes less than rounding to 16 bits.
TEST_CASE("in 16 bits an NHWC region trains as its nodes in NCHW, within the type's rounding",
          "[cuda][channels_last]") {
  const auto chained = cuda::make_emulated_device(), alone = cuda::make_emulated_device();
  alone->chains = false;
  const DType low = GENERATE(DType::f16, DType::bf16);
  for (const std::string& name : kConvolutional) {
    DYNAMIC_SECTION(name << ' ' << name_of(low)) {
      const Golden g = golden(name);
      const HostTensor a = trained(g, *chained, low, 4), b = trained(g, *alone, low, 4),
                       exact = trained(g, *alone, DType::f32, 4);
      CHECK(distance(a, b) < distance(b, exact));
      CHECK(distance(a, exact) < 1.1 * distance(b, exact));
      CHECK(distance(b, exact) > 0);
      CHECK(distance(a, trained(g, *chained, low, 4)) == 0);
    }
  }
}

TEST_CASE("an NHWC region contains convolutions, norms and pools", "[cuda][channels_last]") {
  for (const std::string& name : kConvolutional) {
    INFO(name);
    const auto planned = planned_graph(golden(name), DType::bf16);
    const Graph chained = form_nhwc_regions(*planned, false, cpu_evaluator());
    for (const char* op :
         {"Conv", "ConvGradX", "ConvGradW", "BatchNormTrain", "BatchNormGrad", "MaxPool", "MaxPoolGrad"}) {
      INFO(op);
      CHECK(count(chained, op, false) == 0);
      CHECK(count(chained, op, true) == count(*planned, op, false));
    }
    CHECK(count(chained, "Conv", true) > 1);
    // There is no region in fp32, which does not use tensor cores.
    const auto wide = planned_graph(golden(name), DType::f32);
    CHECK(count(form_nhwc_regions(*wide, false, cpu_evaluator()), "Conv", true) == 0);
  }
}

TEST_CASE("a convolution library is used with channels-last layout in the whole NHWC region", "[cuda][channels_last]") {
  const auto device = cuda::make_emulated_device();
  std::vector<bool> asked;
  device->library = [&](const cuda::Convolution& c) {
    asked.push_back(c.channels_last);
    return nullptr;
  };
  trained(golden("unet_convt_ce_dyn18"), *device, DType::bf16, 1);
  CHECK(asked.size() >= 12);
  CHECK(std::all_of(asked.begin(), asked.end(), [](bool last) { return last; }));
}
