// Recomputation in backward repeats the forward pass exactly: every memory budget gives the same bits.
#include "trainer/compile/memory_budget.h"

#include <catch2/catch_all.hpp>
#include <cstring>

#include "ops/passes/recompute.h"
#include "padding_cases.h"
#include "small_run.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Case {
  std::string name;
  SourceGraph graph;
  Losses losses;
  std::vector<Tensors> batches;  // micro-batches of an accumulation step
  SessionOptions options;
  bool saves = true;  // whether some choice of recomputation needs fewer bytes
};

LossSpec cross_entropy(const std::string& output) {
  LossSpec s;
  s.outputs = {output};
  s.label = "label";
  return s;
}

Tensors with_labels(HostTensor x, uint64_t seed) {
  const int64_t rows = x.dims()[0];
  std::vector<int64_t> label;
  for (int64_t i = 0; i < rows; ++i) label.push_back(static_cast<int64_t>((static_cast<uint64_t>(i) * 7 + seed) % 3));
  return {{"x", std::move(x)}, {"label", HostTensor::of<int64_t>({rows}, label)}};
}

// Returns layers of products, softplus, normalization and dropout, with sums around them.
Case dropouts() {
  std::string text = "input x\n", scales, h = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += "param W" + n + " 32 64\nparam b" + n + " 64\nparam V" + n + " 64 32\nparam s" + n + " 32 = 1\nparam t" +
            n + " 32 = 0\np" + n + " = MatMul(" + h + ", W" + n + ")\nq" + n + " = Add(p" + n + ", b" + n + ")\ng" + n +
            " = Softplus(q" + n + ")\nd" + n + " = Dropout{ratio=0.2,site=" + n + "}(g" + n + ")\no" + n +
            " = MatMul(d" + n + ", V" + n + ")\nr" + n + " = Add(o" + n + ", " + h + ")\nl" + n +
            " = LayerNormalization{axis=-1,epsilon=0.00001}(r" + n + ", s" + n + ", t" + n + ")\n";
    scales += "W" + n + " 0.2\nb" + n + " 0.1\nV" + n + " 0.2\n";
    h = "l" + n;
  }
  text += "param C 32 3\ny = MatMul(" + h + ", C)\noutput y";
  Case c{"dropout", random_graph(text, scales + "C 0.2"), {cross_entropy("y")}, {}, {}};
  for (const uint64_t seed : {1, 2}) c.batches.push_back(with_labels(normal({12, 32}, 1, seed), seed));
  return c;
}

// Returns a residual block of convolutions with batch normalization. Training updates its running statistics.
Case convolutions() {
  const std::string text = R"(
    input x
    param k0 8 3 3 3
    param k1 8 8 3 3
    param k2 8 8 3 3
    param s0 8 = 1
    param s1 8 = 1
    param t0 8 = 0
    param t1 8 = 0
    param m0 8 = 0
    param m1 8 = 0
    param v0 8 = 1
    param v1 8 = 1
    param W 8 3
    a = Conv{pads=[1 1 1 1]}(x, k0)
    b = BatchNormalization(a, s0, t0, m0, v0)
    c = Relu(b)
    d = Conv{pads=[1 1 1 1]}(c, k1)
    e = BatchNormalization(d, s1, t1, m1, v1)
    f = Add(e, c)
    g = Relu(f)
    h = Conv{pads=[1 1 1 1]}(g, k2)
    i = Relu(h)
    p = GlobalAveragePool(i)
    q = Flatten(p)
    y = MatMul(q, W)
    output y)";
  Case c{"convolutions", random_graph(text, "k0 0.3\nk1 0.2\nk2 0.2\nW 0.5"), {cross_entropy("y")}, {}, {}};
  for (const char* name : {"m0", "v0", "m1", "v1"})
    c.graph.values.at(static_cast<size_t>(c.graph.find(name))).trainable = false;
  c.options.batchnorm_train = true;
  for (const uint64_t seed : {3, 4}) c.batches.push_back(with_labels(normal({4, 3, 10, 10}, 1, seed), seed));
  return c;
}

// Returns attention over sequences of two lengths, computed without their padding. Its single layer is too
// small for recomputation to save memory.
Case attention() {
  const PaddingCase from = padding_cases().front();
  Case c{"attention", random_graph(from.text, from.scales), {from.loss}, {}, from.options};
  c.batches = {from.batch({9, {9, 4, 6, 9}, 0}), from.batch({9, {3, 9, 9, 5}, 1})};
  c.saves = false;
  return c;
}

struct Result {
  std::vector<double> sums;
  HostTensor gradients, params;
  int64_t bytes;
  std::string recomputed;
};

Result run(const Case& c, int64_t budget) {
  SessionOptions o = c.options;
  o.activation_budget = budget;
  Session session(c.graph, o);
  session.prepare(c.losses, c.batches[0]);
  session.stage_statistics();
  LossAccumulator window(c.losses);
  for (const Tensors& b : c.batches) window.count(b);
  Result r;
  r.sums = run_micro_batches(session, c.losses, c.batches, window.seeds(1));
  r.gradients = session.host_grads();
  r.params = session.host_params();
  r.bytes = session.activation_bytes();
  r.recomputed = session.recomputed();
  return r;
}

bool same(const HostTensor& a, const HostTensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

// Tests every choice, beginning with the one that needs the most memory.
void check_choices(const Case& c) {
  const Result whole = run(c, 0);
  CHECK(whole.recomputed.empty());
  std::vector<int64_t> bytes;
  for (int64_t budget = std::numeric_limits<int64_t>::max();;) {
    const Result r = run(c, budget);
    INFO(c.name << ": " << r.recomputed << ", " << r.bytes << " of " << whole.bytes << " B");
    CHECK(r.sums == whole.sums);
    CHECK(same(r.gradients, whole.gradients));
    CHECK(same(r.params, whole.params));
    if (!bytes.empty() && r.bytes >= bytes.back()) break;
    bytes.push_back(r.bytes);
    budget = r.bytes - 1;
  }
  CHECK(bytes.front() == whole.bytes);
  CHECK(bytes.size() > (c.saves ? 1 : 0));
}

}  // namespace

TEST_CASE("gradients are the same bits under any memory budget", "[memory_budget]") {
  check_choices(dropouts());
  check_choices(convolutions());
  check_choices(attention());
}

TEST_CASE("gradients in 16 bits are the same bits under any memory budget", "[memory_budget]") {
  for (const DType low : {DType::f16, DType::bf16}) {
    for (Case c : {dropouts(), convolutions(), attention()}) {
      c.options.low = low;
      c.options.compute.assign(c.graph.nodes.size(), low);
      check_choices(c);
    }
  }
}

TEST_CASE("checkpoints in a deep net take its activations down to a fraction", "[memory_budget]") {
  const Case c = dropouts();
  const int64_t whole = run(c, 0).bytes, least = run(c, 1).bytes;
  INFO(least << " of " << whole << " B");
  CHECK(least * 2 < whole);
}

TEST_CASE("without a budget norms and elementwise operators of large fp32 graphs are recomputed", "[memory_budget]") {
  Case c = dropouts();
  c.batches = {with_labels(normal({32768, 32}, 1, 5), 5)};
  const Result kept = run(c, std::numeric_limits<int64_t>::max()), free = run(c, 0);
  CHECK(kept.recomputed == "nothing recomputed");
  CHECK(free.recomputed == "norms and elementwise operators recomputed");
  CHECK(free.bytes * 20 <= kept.bytes * 19);
  CHECK(free.sums == kept.sums);
  CHECK(same(free.gradients, kept.gradients));

  c.options.low = DType::bf16;  // in bf16, products take half the time, so recomputation would slow the step down
  c.options.compute.assign(c.graph.nodes.size(), DType::bf16);
  CHECK(run(c, 0).recomputed.empty());
}
