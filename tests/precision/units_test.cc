// Recognition of units, groups of nodes that one operator would compute: LayerNorm, RMSNorm, GroupNorm, GELU, Softplus,
// linear layers and attention, in the forms that exporters write, and near misses.
#include "precision/units.h"

#include <catch2/catch_all.hpp>

#include "text_graph.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kHead = R"(
    input x
    param W 4
    param B 4
    const two = 2
    const three = 3
    const eps = 1e-12
    const one = 1
    const half = 0.5
    const mhalf = -0.5
    const root2 = 1.4142135
    const rroot2 = 0.70710677
    const c044 = 0.044715
    const rpi = 0.7978846
    const twenty = 20
    const ones 4 = 1
    const zeros 4 = 0
    const shape 3 int64 = 0 2 -1
    )";

// Returns "LayerNormalization: mean d sq ..." for each unit: its kind, and the names of its nodes.
std::string units_of(const std::string& body, const std::string& output = "y") {
  const SourceGraph g = text_graph(kHead + body + "\n    output " + output);
  std::string out;
  for (const Unit& u : find_units(g)) {
    out += (out.empty() ? "" : "; ") + u.kind + ":";
    for (const int n : u.nodes) out += " " + g.nodes[static_cast<size_t>(n)].name;
    CHECK(g.values[static_cast<size_t>(u.input)].name == "x");
  }
  return out;
}

const std::string kStatistics = R"(
    mean = ReduceMean{axes=[-1]}(x)
    d = Sub(x, mean)
    sq = Pow(d, two)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve))";

}  // namespace

TEST_CASE("LayerNorm, PyTorch's nine nodes, operands in either order") {
  CHECK(units_of(kStatistics + R"(
    q = Div(d, s)
    m = Mul(q, W)
    y = Add(m, B))") == "LayerNormalization: mean d sq var ve s q m y");
  CHECK(units_of(R"(
    mean = ReduceMean{axes=[-1]}(x)
    d = Sub(x, mean)
    sq = Mul(d, d)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(eps, var)
    s = Pow(ve, half)
    q = Div(d, s)
    m = Mul(W, q)
    y = Add(B, m))") == "LayerNormalization: mean d sq var ve s q m y");
}

TEST_CASE("LayerNorm with the difference computed twice, and without weights") {
  CHECK(units_of(R"(
    mean = ReduceMean{axes=[-1]}(x)
    d = Sub(x, mean)
    d2 = Sub(x, mean)
    sq = Pow(d2, two)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve)
    y = Div(d, s))") == "LayerNormalization: mean d d2 sq var ve s y");
}

TEST_CASE("LayerNorm, TensorFlow's batch-norm form") {
  CHECK(units_of(R"(
    mean = ReduceMean{axes=[-1]}(x)
    d = Sub(x, mean)
    sq = Mul(d, d)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve)
    r = Reciprocal(s)
    rw = Mul(r, W)
    xr = Mul(x, rw)
    mr = Mul(mean, rw)
    b = Sub(B, mr)
    y = Add(xr, b))") == "LayerNormalization: mean d sq var ve s r rw xr mr b y");
}

TEST_CASE("RMSNorm: Reciprocal, Div by 1, Pow -0.5, weight first, cast before the weight") {
  const std::string head = R"(
    sq = Pow(x, two)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    )";
  CHECK(units_of(head + R"(s = Sqrt(ve)
    r = Reciprocal(s)
    n = Mul(x, r)
    y = Mul(W, n))") == "RMSNormalization: sq var ve s r n y");
  CHECK(units_of(head + R"(s = Sqrt(ve)
    r = Div(one, s)
    n = Mul(x, r)
    c = Cast{to=1}(n)
    y = Mul(W, c))") == "RMSNormalization: sq var ve s r n c y");
  CHECK(units_of(head + R"(r = Pow(ve, mhalf)
    y = Mul(x, r))") == "RMSNormalization: sq var ve r y");
  CHECK(units_of(head + R"(s = Sqrt(ve)
    y = Div(x, s))") == "RMSNormalization: sq var ve s y");
}

TEST_CASE("what is no norm: statistics used elsewhere, another exponent, axes other than the last") {
  CHECK(units_of(kStatistics + R"(
    q = Div(d, s)
    y = Add(q, mean))") == "");
  CHECK(units_of(R"(
    mean = ReduceMean{axes=[-1]}(x)
    d = Sub(x, mean)
    sq = Pow(d, three)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve)
    y = Div(d, s))") == "");
  CHECK(units_of(R"(
    mean = ReduceMean{axes=[1]}(x)
    d = Sub(x, mean)
    sq = Pow(d, two)
    var = ReduceMean{axes=[-2]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve)
    y = Div(d, s))") == "MeanVarianceNormalization: mean d sq var ve s y");
  CHECK(units_of("y = ReduceMean{axes=[1]}(x)") == "");  // mean pooling is no unit
}

TEST_CASE("the residual after a LayerNorm is not its bias") {
  CHECK(units_of(kStatistics + R"(
    q = Div(d, s)
    m = Mul(q, W)
    y = Add(m, x))") == "LayerNormalization: mean d sq var ve s q m");
}

TEST_CASE("GroupNorm around InstanceNormalization with dummy weights") {
  CHECK(units_of(R"(
    a = Reshape(x, shape)
    n = InstanceNormalization(a, ones, zeros)
    b = Reshape(n, shape)
    m = Mul(b, W)
    y = Add(m, B))") == "GroupNormalization: a n b m y");
  CHECK(units_of(R"(
    a = Reshape(x, shape)
    n = InstanceNormalization(a, W, zeros)
    y = Reshape(n, shape))") == "");
}

TEST_CASE("GELU with Erf: G1, G2, G3") {
  const std::string head = R"(
    v = Div(x, root2)
    e = Erf(v)
    t = Add(e, one)
    )";
  CHECK(units_of(head + R"(a = Mul(x, t)
    y = Mul(a, half))") == "Gelu: v e t a y");
  CHECK(units_of(head + R"(a = Mul(half, t)
    y = Mul(x, a))") == "Gelu: v e t a y");
  CHECK(units_of(head + R"(a = Mul(x, half)
    y = Mul(a, t))") == "Gelu: v e t a y");
  CHECK(units_of(R"(
    v = Mul(rroot2, x)
    e = Erf(v)
    t = Add(one, e)
    a = Mul(t, x)
    y = Mul(half, a))") == "Gelu: v e t a y");
  CHECK(units_of(head + R"(a = Mul(x, t)
    y = Mul(a, two))") == "");
  CHECK(units_of(head + R"(a = Mul(x, t)
    b = Mul(a, half)
    y = Add(b, v))") == "");
}

TEST_CASE("GELU with Tanh: G4, products for Pow, and x drawn out") {
  CHECK(units_of(R"(
    h = Mul(x, half)
    p = Pow(x, three)
    k = Mul(p, c044)
    a = Add(x, k)
    v = Mul(a, rpi)
    e = Tanh(v)
    t = Add(e, one)
    y = Mul(h, t))") == "Gelu: h p k a v e t y");
  CHECK(units_of(R"(
    p = Mul(x, x)
    q = Mul(p, x)
    k = Mul(c044, q)
    a = Add(k, x)
    v = Mul(rpi, a)
    e = Tanh(v)
    t = Add(one, e)
    b = Mul(half, t)
    y = Mul(x, b))") == "Gelu: p q k a v e t b y");
  CHECK(units_of(R"(
    u = Mul(x, rpi)
    p = Mul(x, x)
    k = Mul(c044, p)
    a = Add(one, k)
    v = Mul(u, a)
    e = Tanh(v)
    t = Add(e, one)
    b = Mul(x, t)
    y = Mul(b, half))") == "Gelu: u p k a v e t b y");
  CHECK(units_of("y = Tanh(x)") == "");
}

TEST_CASE("Softplus in two spellings") {
  CHECK(units_of(R"(
    g = Greater(x, twenty)
    s = Softplus(x)
    y = Where(g, x, s))") == "Softplus: g s y");
  CHECK(units_of(R"(
    e = Exp(x)
    a = Add(one, e)
    y = Log(a))") == "Softplus: e a y");
}

// A value that another node reads must exist in the graph, so its nodes do not become one operator.
TEST_CASE("a unit's inner values have no other readers") {
  const std::pair<std::string, std::vector<std::string>> units[] = {
      {kStatistics + "\n q = Div(d, s)\n m = Mul(q, W)\n y = Add(m, B)", {"mean", "d", "sq", "var", "ve", "s"}},
      {"v = Div(x, root2)\n e = Erf(v)\n t = Add(e, one)\n a = Mul(x, t)\n y = Mul(a, half)", {"v", "e", "t", "a"}},
      {"h = Mul(x, half)\n p = Pow(x, three)\n k = Mul(p, c044)\n a = Add(x, k)\n v = Mul(a, rpi)\n e = Tanh(v)\n"
       "t = Add(e, one)\n y = Mul(h, t)",
       {"h", "p", "k", "a", "v", "e", "t"}},
      {"g = Greater(x, twenty)\n s = Softplus(x)\n y = Where(g, x, s)", {"s"}},
      {"e = Exp(x)\n a = Add(one, e)\n y = Log(a)", {"e", "a"}}};
  for (const auto& [body, inner] : units) {
    CHECK_FALSE(units_of(body).empty());
    for (const std::string& name : inner) {
      INFO(body << "\n is read at " << name);
      CHECK(units_of(body + "\n other = Sin(" + name + ")\n z = Add(y, other)", "z").empty());
      CHECK(units_of(body + "\n output " + name).empty());
    }
  }
}

TEST_CASE("linear is MatMul with a weight and a bias vector") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    param b 4
    m = MatMul(x, W)
    y = Add(b, m)
    n = MatMul(y, y)
    z = Add(n, b)
    output z)");
  const std::vector<Unit> units = find_calls(g);
  REQUIRE(units.size() == 1);
  CHECK(units[0].nodes == std::vector<int>{0, 1});
}

static std::string calls_of(const std::string& text) {
  const SourceGraph g = text_graph(
      "input q\n input k\n input v\n input m bool\n const r = 0.5\n const z = 0.0\n const low = -3.4e38\n"
      "const eight = 8.0\n" +
      text);
  std::string out;
  for (const Unit& u : find_calls(g)) {
    out += u.kind + ":";
    for (const int n : u.nodes) out += " " + g.nodes[static_cast<size_t>(n)].name;
    out += ";";
  }
  return out;
}

TEST_CASE("attention is one call where both operands are scaled beforehand and full masks are guarded against") {
  const std::string scores = "qs = Mul(q, r)\n ks = Mul(r, k)\n s = MatMul(qs, ks)\n";
  const std::string guard = "bad = IsNaN(p)\n w = Where(bad, z, p)\n y = MatMul(w, v)\n output y\n";
  CHECK(calls_of(scores + "p = Softmax(s)\n y = MatMul(p, v)\n output y") == "Attention: qs ks s p y;");
  CHECK(calls_of("a = Where(m, z, low)\n" + scores + "t = Add(s, a)\n p = Softmax(t)\n" + guard) ==
        "Attention: a qs ks s t p bad w y;");
  // Without the guard no unit is formed. The mask's large values must keep their size, so each node is decided
  // separately.
  CHECK(calls_of("a = Where(m, z, low)\n" + scores + "t = Add(s, a)\n p = Softmax(t)\n y = MatMul(p, v)\n output y")
            .empty());
  // None of these is a unit: scores that are scaled after the product (eager attention), probabilities that are also an
  // output, and different factors for queries and keys.
  CHECK(calls_of("s = MatMul(q, k)\n d = Mul(s, r)\n p = Softmax(d)\n y = MatMul(p, v)\n output y").empty());
  CHECK(calls_of(scores + "p = Softmax(s)\n y = MatMul(p, v)\n output y\n output p").empty());
  CHECK(calls_of("qs = Mul(q, r)\n ks = Mul(k, z)\n s = MatMul(qs, ks)\n p = Softmax(s)\n y = MatMul(p, v)\n output y")
            .empty());
  // Here each operand's factor is a separate square root that is computed from a shape.
  CHECK(calls_of("n = Sqrt(eight)\n n2 = Sqrt(eight)\n qs = Mul(q, n)\n ks = Mul(k, n2)\n s = MatMul(qs, ks)\n"
                 "p = Softmax(s)\n y = MatMul(p, v)\n output y") == "Attention: qs ks s p y;");
}
