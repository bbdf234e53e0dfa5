// Reverse-mode differentiation of graphs: what is differentiated, accumulated or refused. The operators' rules are
// tested in tests/ops/gradient_test.cc.
#include "graph/autodiff.h"

#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "tests/graph/core_text.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns the gradients of sum(output y) with respect to values; 0 if there is none.
std::vector<ValueId> differentiate(CoreText& t, const std::string& y, const std::vector<std::string>& wrt) {
  std::vector<ValueId> values;
  for (const std::string& w : wrt) values.push_back(t[w]);
  Autodiff ad(t.builder, values);
  ad.seed(t[y], t.builder.expand(t.builder.scalar(1, t.builder.dtype(t[y])), t.builder.dims(t[y])));
  ad.run();
  std::vector<ValueId> out;
  for (const ValueId v : values) out.push_back(ad.grad(v));
  return out;
}

}  // namespace

TEST_CASE("uses of a value add up, broadcasts are undone") {
  CoreText t("param w 3\ninput x 2 3\na = Mul(w, x)\nb = Mul(a, w)\nc = Add(b, w)");
  const ValueId g = differentiate(t, "c", {"w"})[0];
  CHECK(t.builder.dims(g) == Dims{3});
  t.graph.outputs.push_back({"g", g});
  const HostTensor w = HostTensor::of<float>({3}, {1, 2, 3}), x = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  // d sum(w^2 x + w) / dw = 2 w (x1 + x2) + 2
  CHECK(interpret(t.graph, {{"x", x}}, {w}).outputs.at("g").to_doubles() ==
        std::vector<double>{2 * 1 * 5 + 2, 2 * 2 * 7 + 2, 2 * 3 * 9 + 2});
}

TEST_CASE("what does not reach the loss has no gradient, and costs nothing") {
  CoreText t(
      "param w 3\nparam other 3\nparam masked 3\na = Mul(w, w)\nb = Exp(other)\nconst c bool = 0\nm = Greater(masked, "
      "a)\nz = Where(m, a, w)");
  const int32_t before = t.graph.n_nodes();
  const auto g = differentiate(t, "z", {"w", "other", "masked"});
  CHECK(g[0]);
  CHECK_FALSE(g[1]);
  CHECK_FALSE(g[2]);  // z depends on `masked` only through a comparison
  for (int32_t n = before; n < t.graph.n_nodes(); ++n)
    CHECK(t.graph.node(NodeId{n}).origin.role == std::string("gradient of"));
}

TEST_CASE("nothing upstream of the wanted values is differentiated") {
  CoreText t("param w 3\na = Exp(w)\nb = Exp(a)\nc = Exp(b)");
  const int32_t before = t.graph.n_nodes();
  differentiate(t, "c", {"b"});
  CHECK(t.graph.n_nodes() == before);  // the gradient of Exp is its result; a product with ones is dropped
}

TEST_CASE("gradients of 16-bit parts reach fp32 values in fp32") {
  CoreText t(cat("param w 3\nh = Cast(w) {to=", static_cast<int>(DType::f16), "}\ny = Mul(h, h)"));
  const ValueId g = differentiate(t, "y", {"w"})[0];
  CHECK(t.builder.dtype(g) == DType::f32);
}

TEST_CASE("a missing rule is refused, and listed beforehand") {
  CoreText t("param w 2 3\ny = Softmax(w)\nz = SoftmaxGrad(y, w)\nv = Exp(z)");
  const std::vector<NodeId> blockers = gradient_blockers(t.graph, {t["w"]}, {t["v"]});
  REQUIRE(blockers.size() == 1);
  CHECK(t.graph.node(blockers[0]).op->name == "SoftmaxGrad");
  CHECK(gradient_blockers(t.graph, {t["w"]}, {t["y"]}).empty());
  try {
    differentiate(t, "v", {"w"});
    FAIL("SoftmaxGrad has no rule");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::unsupported);
    CHECK(e.id() == "E_NO_GRAD");
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("SoftmaxGrad"));
  }
}

TEST_CASE("the statistics of a norm carry no gradient, and say so") {
  CoreText t("param x 2 3\nparam s 3\ny, m, r = LayerNorm(x, s) {n=3; epsilon=1e-5; rms=0}\nz = Mul(m, m)");
  CHECK_THROWS_WITH(differentiate(t, "z", {"x"}), Catch::Matchers::ContainsSubstring("LayerNorm"));
}
