// GraphCompiler: the graphs of a session, compiled without a session.
#include "trainer/compile/graph_compiler.h"

#include <catch2/catch_all.hpp>

#include "base/error.h"
#include "small_run.h"

using namespace amp;
using namespace amp::test;

namespace {

const char* const kModel = R"(
    input x
    param W1 6 8
    param b1 8
    param W2 8 3
    const two = 2
    p = MatMul(x, W1)
    h = Add(p, b1)
    a = Relu(h)
    s = Mul(a, two)
    logits = MatMul(s, W2)
    output logits)";

LossSpec cross_entropy() {
  LossSpec s;
  s.outputs = {"logits"};
  s.label = "label";
  return s;
}

size_t count(const Graph& g, const std::string& op) {
  size_t n = 0;
  for (int32_t i = 0; i < g.n_nodes(); ++i) n += g.node(NodeId{i}).op->name == op;
  return n;
}

struct Fixture {
  SourceGraph source = random_graph(kModel, "W1 0.1 b1 0.1 W2 0.1");
  ParamTable table{source};
  Losses losses{cross_entropy()};
  Tensors batch{{"x", normal({4, 6}, 1, 1)}, {"label", HostTensor::of<int64_t>({4}, {0, 1, 2, 0})}};
  GraphCompiler compiler(GraphOptions o = {}, DeviceTraits t = {}) const { return {source, table, o, t}; }
};

}  // namespace

TEST_CASE("a compiled training graph has seeds, loss sums and a gradient of each parameter") {
  const Fixture f;
  const auto g = f.compiler().compile({GraphForm::train, &f.losses, {}, f.batch});
  CHECK(g->input(seed_input(0)));
  CHECK_FALSE(g->input(seed_input(1)));
  REQUIRE(g->outputs.size() == 1);
  CHECK(g->outputs[0].name == loss_output(0));
  std::vector<int> slots;
  for (const Graph::ParamGrad& p : g->param_grads) slots.push_back(p.slot);
  CHECK(slots == std::vector<int>{0, 1, 2});
  // Equal requests give equal graphs. Only the shapes of the batch are read.
  Tensors other = f.batch;
  other["x"] = normal({4, 6}, 1, 2);
  CHECK(f.compiler().compile({GraphForm::train, &f.losses, {}, other})->dump() == g->dump());
}

TEST_CASE("forms: evaluation has no gradients, eval_full no precision plan") {
  const Fixture f;
  GraphOptions low;
  low.compute.assign(f.source.nodes.size(), DType::f16);
  const GraphCompiler c = f.compiler(low);
  const int logits = f.source.find("logits");
  const auto eval = c.compile({GraphForm::eval, &f.losses, {logits}, f.batch});
  CHECK(eval->param_grads.empty());
  CHECK(eval->outputs.size() == 2);
  CHECK(count(*eval, "Cast") > 0);
  CHECK(count(*c.compile({GraphForm::eval_full, nullptr, {logits}, f.batch}), "Cast") == 0);
}

TEST_CASE("what is fused follows from the device's traits and the option") {
  const Fixture f;
  const auto fused = [&](GraphOptions o, DeviceTraits t) {
    const GraphCompiler c = f.compiler(o, t);
    auto g = c.compile({GraphForm::eval, nullptr, {f.source.find("logits")}, f.batch});
    c.fuse(*g);
    return g;
  };
  DeviceTraits gains;
  gains.fuses_elementwise = true;
  GraphOptions off;
  off.fusion = false;
  CHECK(count(*fused({}, {}), "Fused") == 0);
  CHECK(count(*fused({}, gains), "Fused") == 1);
  CHECK(fused(off, gains)->dump() == fused(off, {})->dump());
}

TEST_CASE("a loss on an output that the model has not names the nearest") {
  const Fixture f;
  LossSpec wrong = cross_entropy();
  wrong.outputs = {"logit"};
  const Losses losses(wrong);
  try {
    f.compiler().compile({GraphForm::train, &losses, {}, f.batch});
    FAIL("compiled");
  } catch (const Error& e) {
    CHECK(e.id() == "E_LOSS_IO");
    CHECK_THAT(e.hint(), Catch::Matchers::ContainsSubstring("logits"));
  }
}
