// A model with attention rows without keys (a window that contains only padding). Its gradients are finite and equal
// those of the graph that exporters write with a guard after the softmax.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <numeric>

#include "small_run.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

// Queries at padded positions have no key. `kept` (batch, 1, query, key) states which keys a query attends to.
const std::string kBefore = R"(
    input ids int64
    input mask bool
    param E 7 8
    param Wq 8 8
    param Wk 8 8
    param Wv 8 8
    param Wc 8 3
    const heads int64 4 = 0 0 2 4
    const joined int64 3 = 0 0 8
    const ones int64 1 = 1
    const two int64 1 = 2
    const last int64 1 = -1
    const zero = 0
    const half = 0.5
    const minus_inf = -inf
    e = Gather(E, ids)
    q0 = MatMul(e, Wq)
    q1 = Reshape(q0, heads)
    q = Transpose{perm=[0 2 1 3]}(q1)
    k0 = MatMul(e, Wk)
    k1 = Reshape(k0, heads)
    k = Transpose{perm=[0 2 1 3]}(k1)
    v0 = MatMul(e, Wv)
    v1 = Reshape(v0, heads)
    v = Transpose{perm=[0 2 1 3]}(v1)
    mi = Unsqueeze(mask, two)
    mj = Unsqueeze(mask, ones)
    mij = And(mi, mj)
    keep = Unsqueeze(mij, ones)
)";
const std::string kBehind = R"(
    o1 = Transpose{perm=[0 2 1 3]}(o)
    o2 = Reshape(o1, joined)
    h = Add(e, o2)
    y = MatMul(h, Wc)
    output y
)";
const std::map<std::string, std::string> kSpellings = {
    {"the operator, boolean", "o = Attention{scale=0.5}(q, k, v, keep)\n"},
    {"the operator, floating", "f = Where(keep, zero, minus_inf)\no = Attention{scale=0.5}(q, k, v, f)\n"},
    {"the operator, capped", "o = Attention{scale=0.5,softcap=50.0}(q, k, v, keep)\n"},
    {"guarded",
     "kt = Transpose{perm=[0 1 3 2]}(k)\ns = MatMul(q, kt)\ns1 = Mul(s, half)\nf = Where(keep, zero, minus_inf)\n"
     "s2 = Add(s1, f)\np = Softmax{axis=-1}(s2)\nn = IsNaN(p)\np1 = Where(n, zero, p)\no = MatMul(p1, v)\n"},
    {"guarded, where",
     "kt = Transpose{perm=[0 1 3 2]}(k)\ns = MatMul(q, kt)\ns1 = Mul(s, half)\ns2 = Where(keep, s1, minus_inf)\n"
     "p = Softmax{axis=-1}(s2)\nn = IsNaN(p)\np1 = Where(n, zero, p)\no = MatMul(p1, v)\n"}};

SourceGraph model(const std::string& spelling) {
  SourceGraph g = random_graph(kBefore + kSpellings.at(spelling) + kBehind, "E 0.8\nWq 0.5\nWk 0.5\nWv 0.5\nWc 0.5\n");
  for (SourceNode& n : g.nodes) {
    if (n.op == "Attention") n.version = 23;
  }
  return g;
}

struct Result {
  std::vector<double> losses, gradients;
};
Result train(const std::string& spelling, bool remove_padding) {
  const SourceGraph g = model(spelling);
  SessionOptions o;
  o.remove_padding = remove_padding;
  Session s(g, o);
  LossSpec loss{"cross_entropy"};
  loss.outputs = {"y"};
  const Tensors batch{
      {"ids", HostTensor::of<int64_t>({2, 6}, {1, 2, 3, 4, 5, 6, 3, 2, 0, 0, 0, 0})},
      {"mask", HostTensor::of<int64_t>({2, 6}, {1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0}).cast(DType::boolean)},
      {"label", HostTensor::of<int64_t>({2, 6}, {0, 1, 2, 0, -100, -100, 1, 1, -100, -100, -100, -100})}};
  Result r;
  r.losses = run_micro_batch(s, loss, batch, {0.5}, false);
  for (int slot = 0; slot < static_cast<int>(s.table().size()); ++slot) {
    const std::vector<double> x = s.grad(slot).to_doubles();
    r.gradients.insert(r.gradients.end(), x.begin(), x.end());
  }
  return r;
}

}  // namespace

TEST_CASE("rows without keys give nothing and pass no gradient, in every spelling", "[attention]") {
  const Result want = train("guarded", false);
  for (const double x : want.gradients) REQUIRE(std::isfinite(x));
  for (const auto& [name, text] : kSpellings) {
    for (const bool remove_padding : {false, true}) {
      INFO(name << (remove_padding ? ", packed" : ""));
      const Result got = train(name, remove_padding);
      // A soft cap of 50 changes scores below 1 by a relative 1e-4 at most.
      const double tolerance = name == "the operator, capped" ? 1e-3 : 1e-6;
      CHECK(std::abs(got.losses[0] - want.losses[0]) <= tolerance * std::abs(want.losses[0]));
      REQUIRE(got.gradients.size() == want.gradients.size());
      for (size_t i = 0; i < got.gradients.size(); ++i)
        CHECK(std::abs(got.gradients[i] - want.gradients[i]) <= tolerance);
    }
  }
}
