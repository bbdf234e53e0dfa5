// The precision plan applied to graphs: which values are stored in 16 bits, and where casts are inserted.
#include "precision/apply.h"

#include <catch2/catch_all.hpp>

#include "graph/autodiff.h"
#include "graph/passes.h"
#include "tests/backend/small_nets.h"
#include "tests/graph/core_text.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr DType kHalf = DType::f16, kFull = DType::f32;

std::string applied(const std::string& text, const std::vector<DType>& compute) {
  return text_of(apply_precision(prune(CoreText(text).graph), compute, kHalf, cpu_evaluator()));
}

}  // namespace

TEST_CASE("an all-fp32 plan leaves the graph as it is") {
  for (const Net& net : small_nets()) {
    const Graph g = prune(CoreText(net.text).graph);
    for (const std::vector<DType>& plan : {std::vector<DType>{}, std::vector<DType>(64, kFull)}) {
      CHECK(text_of(apply_precision(g, plan, kHalf, cpu_evaluator())) == text_of(g));
    }
  }
}

TEST_CASE("a 16-bit node reads and writes 16 bits") {
  CHECK(applied("input x 2 3\nparam W 3 4\ny = MatMul(x, W) @0\nz = Exp(y)\noutput z", {kHalf}) ==
        "t0 float16[3,4] = Cast(W)\n"
        "t1 float16[2,4] = MatMul(x, t0)\n"  // the input is fed in 16 bits
        "t2 float32[2,4] = Exp(t1)\n"        // Exp widens its operand while it loads
        "output z = t2\n");
  CHECK(applied("input x 2 3\nparam W 3 4\ny = MatMul(x, W) @0\nz = Exp(x)\noutput y\noutput z", {kHalf}) ==
        "t0 float16[2,3] = Cast(x)\n"  // the input is fed unchanged, because fp32 arithmetic also reads it
        "t1 float16[3,4] = Cast(W)\n"
        "t2 float16[2,4] = MatMul(t0, t1)\n"
        "t3 float32[2,3] = Exp(x)\n"
        "output y = t2\n"
        "output z = t3\n");
}

TEST_CASE("a weight is cast once, whoever reads it") {
  const std::string g =
      applied("input x 3 3\nparam W 3 3\ny = MatMul(x, W) @0\nz = MatMul(y, W) @1\nv = MatMul(z, W) @2\noutput v",
              {kHalf, kHalf, kHalf});
  CHECK(g.find("Cast(W)") != std::string::npos);
  CHECK(g.find("Cast(W)") == g.rfind("Cast(W)"));
}

TEST_CASE("an fp32 node stores 16 bits when all its readers read 16 bits") {
  const std::string net = "input x 4 4\na = MatMul(x, x) @0\nb = Softmax(a) @1\nc = MatMul(b, x) @2\noutput c";
  CHECK(applied(net, {kHalf, kFull, kHalf}) ==
        "t0 float16[4,4] = MatMul(x, x)\n"
        "t1 float16[4,4] = Softmax(t0)\n"
        "t2 float16[4,4] = MatMul(t1, x)\n"
        "output c = t2\n");
  // With one fp32 reader, or as an output, a value is stored in fp32, with one cast for the other readers.
  CHECK(applied(net + "\nd = Exp(b) @3\noutput d", {kHalf, kFull, kHalf, kFull}) ==
        "t0 float16[4,4] = MatMul(x, x)\n"
        "t1 float32[4,4] = Softmax(t0)\n"
        "t2 float16[4,4] = Cast(t1)\n"
        "t3 float16[4,4] = MatMul(t2, x)\n"
        "t4 float32[4,4] = Exp(t1)\n"
        "output c = t3\n"
        "output d = t4\n");
  CHECK(applied(net + "\noutput b", {kHalf, kFull, kHalf}).find("float32[4,4] = Softmax") != std::string::npos);
}

TEST_CASE("moves follow their input") {
  CHECK(applied("input x 4 2\na = Exp(x) @0\nb = Transpose(a) {perm=[1 0]} @1\nc = Reshape(b) {dims=[8]} @2\nd = "
                "Neg(c) @3\noutput d",
                {kHalf, kFull, kFull, kHalf}) ==
        "t0 float16[4,2] = Exp(x)\n"
        "t1 float16[2,4] = Transpose(t0)\n"
        "t2 float16[8] = Reshape(t1)\n"
        "t3 float16[8] = Neg(t2)\n"
        "output d = t3\n");
  // Requests pass through moving operators: the fp32 node before them stores 16 bits for the 16-bit node after them.
  CHECK(applied("input x 4 2\na = Exp(x) @0\nb = Transpose(a) {perm=[1 0]} @1\nd = Neg(b) @2\noutput d",
                {kFull, kFull, kHalf}) ==
        "t0 float16[4,2] = Exp(x)\n"
        "t1 float16[2,4] = Transpose(t0)\n"
        "t2 float16[2,4] = Neg(t1)\n"
        "output d = t2\n");
  // If inputs have different types, those in 16 bits are widened to fp32.
  CHECK(applied("input x 2\na = Exp(x) @0\nb = Neg(x) @1\nc = Concat(a, b) {axis=0}\nd = Abs(c)\noutput d",
                {kHalf, kFull}) ==
        "t0 float16[2] = Cast(x)\n"
        "t1 float16[2] = Exp(t0)\n"
        "t2 float32[2] = Neg(x)\n"
        "t3 float32[2] = Cast(t1)\n"
        "t4 float32[4] = Concat(t3, t2)\n"
        "t5 float32[4] = Abs(t4)\n"
        "output d = t5\n");
}

TEST_CASE("a cast goes before the moves that all want it, so that one serves every view") {
  // Value a stays in fp32 for d. Its two views, b and c, are read only in 16 bits, so one cast of a serves both.
  CHECK(applied("input x 4 2\na = Exp(x) @0\nb = Transpose(a) {perm=[1 0]}\nc = Reshape(a) {dims=[8]}\nu = Neg(b) @1\n"
                "v = Neg(c) @1\nd = Abs(a) @0\noutput u\noutput v\noutput d",
                {kFull, kHalf}) ==
        "t0 float32[4,2] = Exp(x)\n"
        "t1 float16[4,2] = Cast(t0)\n"
        "t2 float16[2,4] = Transpose(t1)\n"
        "t3 float16[8] = Reshape(t1)\n"
        "t4 float16[2,4] = Neg(t2)\n"
        "t5 float16[8] = Neg(t3)\n"
        "t6 float32[4,2] = Abs(t0)\n"
        "output u = t4\noutput v = t5\noutput d = t6\n");
  // A weight is cast in its stored layout, in the cast cache, and transposed in 16 bits.
  CHECK(applied("input x 2 4\nparam W 3 4\nt = Transpose(W) {perm=[1 0]}\ny = MatMul(x, t) @0\noutput y", {kHalf}) ==
        "t0 float16[3,4] = Cast(W)\n"
        "t1 float16[4,3] = Transpose(t0)\n"
        "t2 float16[2,3] = MatMul(x, t1)\n"
        "output y = t2\n");
}

TEST_CASE("statistics and integers keep their types") {
  CHECK(applied("input x 4 8\nparam s 8\nparam b 8\ny, m, r = LayerNorm(x, s, b) {n=8; epsilon=1e-5; rms=0} @0\nz = "
                "Exp(y) @1\noutput z",
                {kFull, kHalf}) ==
        "t0 float16[4,8], t1 float32[4], t2 float32[4] = LayerNorm(x, s, b)\n"
        "t3 float16[4,8] = Exp(t0)\n"
        "output z = t3\n");
  CHECK(applied("input ids i64 5\nparam T 7 4\ny = GatherRows(T, ids) {outer=1; n=7; inner=4; dims=[5 4]} @0\noutput y",
                {kHalf}) ==
        "t0 float16[7,4] = Cast(T)\n"
        "t1 float16[5,4] = GatherRows(t0, ids)\n"
        "output y = t1\n");
}

TEST_CASE("where the largest element lies is found again when it was stored in 16 bits") {
  CoreText t(
      "param x 2 5\nm = ReduceMax(x) {axes=[1]; keepdims=1} @0\nn = ReduceMin(x) {axes=[1]; keepdims=1} @1\nd = Sub(m, "
      "n) @2\ny = Neg(d) @3\noutput y");
  const Graph g = apply_precision(prune(t.graph), {kFull, kFull, kHalf, kHalf}, kHalf, cpu_evaluator());
  Graph back = g;
  Builder b(back, cpu_evaluator());
  ValueId x;
  for (int32_t i = 0; i < back.n_values(); ++i) {
    if (back.value(ValueId{i}).kind == ValueKind::param) x = ValueId{i};
  }
  Autodiff ad(b, {x});
  const ValueId y = back.outputs[0].value;
  ad.seed(y, b.expand(b.scalar(1, back.value(y).dtype), back.value(y).dims));
  ad.run();
  back.param_grads = {{0, ad.grad(x)}};
  // Numbers such as 0.1 are not exact in fp16, so the stored maxima and minima differ from the elements.
  const HostTensor v = HostTensor::of<float>({2, 5}, {0.1f, 0.7f, 0.2f, 0.3f, 0.4f, 0.9f, 0.6f, 0.8f, 1.1f, 1.3f});
  CHECK(interpret(back, {}, {v}).param_grads.at(0).to_doubles() == std::vector<double>{1, -1, 0, 0, 0, 0, 1, 0, 0, -1});
}

TEST_CASE("a training graph in mixed precision: fp32 gradients near those of fp32") {
  for (const Net& net : small_nets()) {
    DYNAMIC_SECTION(net.name) {
      const Graph plain = training_graph(net.text);
      for (const DType low : {DType::f16, DType::bf16}) {
        // In the plan, every MatMul, Conv and Add computes in 16 bits.
        CoreText t(net.text);
        Graph tagged = prune(t.graph);
        std::vector<DType> compute;
        Graph numbered;
        {
          // Copies the graph, and gives each node its number as the source node.
          std::map<int32_t, ValueId> map;
          Builder b(numbered, cpu_evaluator());
          const auto leaf = [&](ValueId v) {
            if (!v) return ValueId{};
            if (map.count(v.index)) return map.at(v.index);
            const Value& x = tagged.value(v);
            return map[v.index] = x.kind == ValueKind::input   ? numbered.add_input(x.name, x.dtype, x.dims)
                                  : x.kind == ValueKind::param ? numbered.add_param(x.slot, x.name, x.dtype, x.dims)
                                                               : b.constant(x.constant);
          };
          for (int32_t n = 0; n < tagged.n_nodes(); ++n) {
            const Node& node = tagged.node(NodeId{n});
            std::vector<ValueId> in;
            for (const ValueId v : node.in) in.push_back(leaf(v));
            b.origin = Origin{n};
            const auto out = b.ops(node.op->name, in, node.attrs);
            for (size_t i = 0; i < out.size(); ++i) map[node.out[i].index] = out[i];
            const std::string& op = node.op->name;
            compute.push_back(op == "MatMul" || op == "Conv" || op == "Add" ? low : kFull);
          }
          for (const auto& o : tagged.outputs) numbered.outputs.push_back({o.name, map.at(o.value.index)});
        }
        Graph g = apply_precision(numbered, compute, low, cpu_evaluator());
        Builder b(g, cpu_evaluator());
        std::vector<ValueId> wrt;
        ValueId loss;
        for (int32_t i = 0; i < g.n_values(); ++i) {
          if (g.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
        }
        for (const auto& o : g.outputs) {
          if (o.name == "loss") loss = o.value;
        }
        Autodiff ad(b, wrt);
        ad.seed(loss, g.add_input("seed", DType::f32, {}));
        ad.run();
        for (const ValueId w : wrt) g.param_grads.push_back({g.value(w).slot, ad.grad(w)});
        const Graph mixed = absorb_casts(prune(g));
        auto inputs = random_inputs(plain, 1);
        const auto params = random_params(plain, 1);
        const Interpreted want = interpret(plain, inputs, params), got = interpret(mixed, inputs, params);
        const double tolerance = low == DType::f16 ? 0.02 : 0.15;
        REQUIRE(got.param_grads.size() == want.param_grads.size());
        for (const auto& [slot, grad] : want.param_grads) {
          const HostTensor& have = got.param_grads.at(slot);
          CHECK(have.dtype() == DType::f32);
          const std::vector<double> x = have.to_doubles(), y = grad.to_doubles();
          double most = 0, worst = 0;
          for (size_t i = 0; i < x.size(); ++i) {
            most = std::max(most, std::abs(y[i]));
            worst = std::max(worst, std::abs(x[i] - y[i]));
          }
          INFO(name_of(low) << " gradient " << slot << ", of largest element " << most);
          // small: a bias before BatchNormTrain has rounding errors.
          CHECK(worst <= tolerance * most + tolerance / 100);
        }
      }
    }
  }
}
