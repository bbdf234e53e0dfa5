// Calibration on a model with outliers: the feed-forward block of T5, scaled so that its output exceeds fp16's range,
// as in bf16-trained T5 checkpoints (huggingface/transformers#9295).
#include "trainer/loop/calibrate.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "precision/plan_io.h"
#include "small_run.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kBlock = R"(
    input x
    param g1 16 = 1
    param g2 16 = 1
    param wi 16 64
    param wo 64 16
    param wc 16 4
    const two = 2
    const eps = 0.000001
    sq1 = Pow(x, two)
    var1 = ReduceMean{axes=[-1]}(sq1)
    e1 = Add(var1, eps)
    r1 = Sqrt(e1)
    d1 = Div(x, r1)
    n1 = Mul(d1, g1)
    up = MatMul(n1, wi)
    act = Relu(up)
    down = MatMul(act, wo)
    res = Add(x, down)
    sq2 = Pow(res, two)
    var2 = ReduceMean{axes=[-1]}(sq2)
    e2 = Add(var2, eps)
    r2 = Sqrt(e2)
    d2 = Div(res, r2)
    n2 = Mul(d2, g2)
    logits = MatMul(n2, wc)
    output logits)";

// Returns inputs, and labels that a linear map of the input decides.
Tensors data() {
  const HostTensor x = normal({64, 16}, 1, 100), w = normal({16, 4}, 1, 101);
  std::vector<int64_t> label;
  for (int64_t r = 0; r < 64; ++r) {
    double best = -1e9;
    int64_t at = 0;
    for (int64_t c = 0; c < 4; ++c) {
      double s = 0;
      for (int64_t k = 0; k < 16; ++k) s += x.as<float>()[r * 16 + k] * w.as<float>()[k * 4 + c];
      if (s > best) best = s, at = c;
    }
    label.push_back(at);
  }
  return {{"x", x}, {"label", HostTensor::of<int64_t>({64}, label)}};
}

LossSpec cross_entropy() {
  LossSpec loss;
  loss.outputs = {"logits"};
  return loss;
}

RunOptions adam() {
  RunOptions o;
  o.lr = 0.02;
  o.steps = 120;
  return o;
}

}  // namespace

TEST_CASE("a block beyond fp16's range never trains under O1 and does under the calibrated plan") {
  const SourceGraph g = random_graph(kBlock, "wi 60 wo 60 wc 0.3");
  const Tensors batch = data();
  const LossSpec loss = cross_entropy();
  const RunResult full = run(g, nullptr, loss, batch, adam());
  REQUIRE(full.loss.back() < 0.5 * full.loss[0]);

  const PrecisionPlan o1 = decide(g, preset("O1"), DType::f16);
  const RunResult plain = run(g, &o1, loss, batch, adam());
  CHECK(plain.applied == 0);
  CHECK(plain.skipped == 120);

  CalibrateOptions options;
  const CalibratedPlan found = calibrate(g, loss, {batch}, options);
  CHECK(found.within);
  CHECK(found.error <= 1e-2);
  CHECK(found.plan.any_f16());
  CHECK(found.plan.nodes[static_cast<size_t>(8)].compute == Compute::f32);  // the node 'down'
  bool reason = false;
  for (const Decision& d : found.plan.nodes) reason = reason || d.rule.find("beyond fp16's 65504") != std::string::npos;
  CHECK(reason);
  RunOptions calibrated = adam();
  calibrated.scale = found.plan.list.loss_scale;
  const RunResult r = run(g, &found.plan, loss, batch, calibrated);
  CHECK(r.skipped <= 2);
  CHECK(r.loss.back() == Catch::Approx(full.loss.back()).margin(0.05));

  // The plan is an op list. Read again, it gives the same decisions.
  const OpList list = parse_op_list(plan_to_json(g, found.plan), "plan.json");
  const PrecisionPlan again = decide(g, list, *list.dtype);
  for (size_t n = 0; n < g.nodes.size(); ++n) CHECK(again.nodes[n].compute == found.plan.nodes[n].compute);
  CHECK(list.loss_scale == found.plan.list.loss_scale);
}

TEST_CASE("a tame block keeps the cheapest plan; a tighter bound buys fp32 until it is met") {
  const SourceGraph g = random_graph(kBlock, "wi 0.3 wo 0.3 wc 0.3");
  const Tensors batch = data();
  const LossSpec loss = cross_entropy();
  CalibrateOptions options;
  std::vector<std::string> lines;
  options.say = [&](const std::string& line) { lines.push_back(line); };
  const CalibratedPlan cheap = calibrate(g, loss, {batch}, options);
  CHECK(cheap.within);
  CHECK(cheap.plan.list.rules.empty());
  CHECK(lines.size() == 2);  // tried: O2 and O1, without exceptions

  options.bases = {"O1"};
  const CalibratedPlan base = calibrate(g, loss, {batch}, options);
  CHECK(base.plan.list.rules.empty());
  CHECK(base.low_share < cheap.low_share);
  double last = base.low_share;
  for (const double part : {0.7, 0.3}) {
    options.rtol = base.error * part;
    const CalibratedPlan tight = calibrate(g, loss, {batch}, options);
    INFO(part << ": error " << tight.error << ", share " << tight.low_share);
    CHECK(tight.within);
    CHECK(tight.error <= options.rtol);
    CHECK(tight.low_share < last);
    CHECK_FALSE(tight.plan.list.rules.empty());
    last = tight.low_share;
  }
  options.rtol = 1e-12;  // only fp32 meets this tolerance
  CHECK_FALSE(calibrate(g, loss, {batch}, options).plan.any_low());
}

// In fp16 the difference 2048.9 - 2047.4 is 1, not 1.5, so the gradient of its -8th power is 38 times as large as in
// fp32, from whose gradients the search takes its first loss scale.
TEST_CASE("a loss scale at which 16-bit gradients overflow is halved until they are finite") {
  const SourceGraph g = random_graph(R"(
    input x
    param w 1 1 = 1
    const z = 2047.4
    const one = 1
    p = MatMul(x, w)
    d = Sub(p, z)
    r = Div(one, d)
    r2 = Mul(r, r)
    r4 = Mul(r2, r2)
    y = Mul(r4, r4)
    output y)",
                                     "");
  LossSpec loss;
  loss.kind = "mse";
  loss.outputs = {"y"};
  const Tensors batch = {{"x", HostTensor::of<float>({1, 1}, {2048.9f})},
                         {"label", HostTensor::of<float>({1, 1}, {-1})}};
  CalibrateOptions options;
  options.bases = {"O2"};
  options.rtol = 1e9;
  const CalibratedPlan found = calibrate(g, loss, {batch}, options);
  REQUIRE(found.within);
  REQUIRE(found.plan.any_f16());
  const double scale = found.plan.list.loss_scale.init;
  const auto finite_at = [&](double s) {
    RunOptions o;
    o.steps = 1;
    o.scale.mode = LossScaleConfig::Mode::fixed;
    o.scale.init = s;
    return run(g, &found.plan, loss, batch, o).applied == 1;
  };
  INFO("scale " << scale);
  CHECK(finite_at(scale));
  CHECK_FALSE(finite_at(2 * scale));
}

TEST_CASE("what is measured is what the nodes computed") {
  const SourceGraph g = random_graph(R"(
    input x
    param w 2 2 = 1 2 3 4
    y = MatMul(x, w)
    z = Relu(y)
    output z)",
                                     "");
  LossSpec loss;
  loss.kind = "mse";
  loss.outputs = {"z"};
  const Tensors batch = {{"x", HostTensor::of<float>({1, 2}, {1, -4})},
                         {"label", HostTensor::of<float>({1, 2}, {3, 0})}};
  const Measured m = measure_ranges(g, {}, loss, {batch});
  CHECK(m.inputs[static_cast<size_t>(g.find("x"))].max() == 4);
  CHECK(m.nodes[0].value.max() == 14);  // the values are 1 - 12 and 2 - 16
  CHECK(m.nodes[1].value.max() == 0);
  CHECK(m.loss == Catch::Approx(4.5));
  test::expect_error(
      "E_CALIBRATE_DATA", "no batch", [&] { measure_ranges(g, {}, loss, {}); }, Exit::usage);
}
