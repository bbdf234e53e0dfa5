// Shows the need for loss scaling and fp32 master weights: the cases of "Mixed Precision Training" (Micikevicius et
// al., 2018, section 3) on a regression with tiny targets and thus tiny gradients. bench/loss_scaling.py plots the
// same.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "small_run.h"

using namespace amp;
using namespace amp::test;

namespace {

// The output is a physical quantity of 1e-4: d loss / d hidden is around 1e-11, far below fp16's 2^-24 = 6e-8.
const char* const kTiny = R"(
    input x
    param w1 8 32
    param w2 32 1
    const unit = 0.00006103515625
    h = MatMul(x, w1)
    a = Tanh(h)
    o = MatMul(a, w2)
    y = Mul(o, unit)
    output y)";

struct Tiny {
  SourceGraph g = random_graph(kTiny, "w1 0.35 w2 0.18");
  LossSpec loss;
  Tensors batch;
  Tiny() {
    loss.kind = "mse";
    loss.outputs = {"y"};
    const HostTensor x = normal({128, 8}, 1, 7);
    std::vector<float> y;
    for (int64_t r = 0; r < 128; ++r) {
      const float* p = x.as<float>() + r * 8;
      y.push_back(0x1p-14f * (p[0] * p[1] + std::sin(p[2])));
    }
    batch = {{"x", x}, {"label", HostTensor::of<float>({128, 1}, y)}};
  }
  RunResult train(bool mixed, const LossScaleConfig& scale, bool low_weights = false) const {
    RunOptions o;
    o.scale = scale;
    o.optimizer.rule = "adam";
    o.optimizer.settings.eps = 1e-16;  // gradients are tiny, not zero
    o.lr = 1e-3;
    o.steps = 400;
    o.low_weights = low_weights;
    const PrecisionPlan plan = decide(g, preset("O1"), DType::f16);
    return run(g, mixed ? &plan : nullptr, loss, batch, o);
  }
};

LossScaleConfig fixed(double scale) {
  LossScaleConfig c;
  c.mode = LossScaleConfig::Mode::fixed;
  c.init = scale;
  return c;
}

}  // namespace

TEST_CASE("gradients below 2^-24: nothing is learnt at scale 1, all of it with dynamic scaling") {
  const Tiny t;
  const RunResult full = t.train(false, fixed(1));
  REQUIRE(full.loss.back() < 0.3 * full.loss[0]);
  const RunResult unscaled = t.train(true, fixed(1));
  CHECK(unscaled.applied == 400);  // nothing overflows, and the gradients become zero without a warning
  CHECK(unscaled.loss.back() == Catch::Approx(unscaled.loss[0]).epsilon(0.02));
  LossScaleConfig dynamic;
  dynamic.growth_interval = 20;
  const RunResult scaled = t.train(true, dynamic);
  CHECK(scaled.last_scale > 65536);
  CHECK(scaled.loss.back() == Catch::Approx(full.loss.back()).epsilon(0.15));
}

TEST_CASE("fp16 weights without fp32 masters stall: an update below half a unit in the last place is lost") {
  const Tiny t;
  LossScaleConfig dynamic;
  dynamic.growth_interval = 20;
  const auto final_loss = [&](bool low_weights) {
    RunOptions o;
    o.scale = dynamic;
    o.optimizer.rule = "adam";
    o.optimizer.settings.eps = 1e-16;
    // Weights are around 0.3, where half a unit in the last place of fp16 is 1.2e-4. Steps of 2e-5 are therefore lost.
    o.lr = 2e-5;
    o.steps = 1500;
    o.low_weights = low_weights;
    const PrecisionPlan plan = decide(t.g, preset("O1"), DType::f16);
    const RunResult r = run(t.g, &plan, t.loss, t.batch, o);
    return r.loss.back() / r.loss[0];
  };
  const double masters = final_loss(false), none = final_loss(true);
  INFO("masters " << masters << ", none " << none);
  CHECK(masters < 0.75);
  CHECK(none > 0.9);
}
