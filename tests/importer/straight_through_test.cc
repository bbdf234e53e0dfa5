// Tests which straight-through estimators are recognized if they were exported without their detach(), and where
// gradients stop otherwise.
#include "importer/quantized/straight_through.h"

#include <catch2/catch_all.hpp>

#include "models.h"
#include "run.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string model(const std::string& form) {
  return R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,4] y)
    <float[4,4] W = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4,4] F = {2,1,-3,4,5,1,7,-8,9,1,2,3,4,-5,6,1},
     float three = {3}, float one = {1}, float zero = {0}, int64[2] onehot = {0, 1}, int64 depth = {4}, int64[1] k = {1}>
    { h = MatMul (x, W) )" +
         form + R"( y = MatMul (z, F) })";
}

std::vector<int> detached(const SourceGraph& g) {
  std::vector<int> out;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].attrs.has(kDetached)) out.push_back(static_cast<int>(n));
  }
  return out;
}

}  // namespace

TEST_CASE("straight-through estimators are recognized by their structure", "[straight]") {
  const TempDir f;
  const std::pair<const char*, const char*> forms[] = {
      {"round", "q = Round (h)  d = Sub (q, h)  z = Add (h, d)"},
      {"the other order", "q = Round (h)  d = Sub (q, h)  z = Add (d, h)"},
      {"scaled", "s = Mul (h, three)  r = Round (s)  q = Div (r, three)  d = Sub (q, h)  z = Add (h, d)"},
      {"sign", "q = Sign (h)  d = Sub (q, h)  z = Add (h, d)"},
      {"floor", "q = Floor (h)  d = Sub (q, h)  z = Add (h, d)"},
      {"a step", "c = Greater (h, zero)  q = Cast <to = 1> (c)  d = Sub (q, h)  z = Add (h, d)"},
      {"hard Gumbel softmax",
       "p = Softmax <axis = 1> (h)  i = ArgMax <axis = 1, keepdims = 0> (p)  "
       "q = OneHot <axis = 1> (i, depth, values)  d = Sub (q, p)  z = Add (d, p)"},
      {"the largest by TopK",
       "p = Softmax <axis = 1> (h)  v, i = TopK (p, k)  sh = Shape (p)  o = ConstantOfShape (sh)  u = Expand (one, "
       "two)  "
       "q = ScatterElements <axis = 1> (o, i, u)  d = Sub (q, p)  z = Add (d, p)"},
      {"x - (x - f)", "q = Round (h)  d = Sub (h, q)  z = Sub (h, d)"},
      {"(f + x) - x", "q = Round (h)  s = Add (q, h)  z = Sub (s, h)"},
      {"behind Identity", "i = Identity (h)  q = Round (h)  d = Sub (q, i)  e = Identity (d)  z = Add (h, e)"},
  };
  for (const auto& [name, form] : forms) {
    INFO(name);
    std::string text = model(form);
    if (text.find("values") != std::string::npos)
      text.replace(text.find("int64 depth"), 0, "float[2] values = {0, 1}, ");
    if (text.find("two") != std::string::npos) text.replace(text.find("int64 depth"), 0, "int64[2] two = {1, 1}, ");
    const Imported m = import_text(f, text);
    CHECK(!detached(m.graph).empty());
    const auto note = std::find_if(m.notes.begin(), m.notes.end(), [](const std::string& n) {
      return n.find("straight-through") != std::string::npos;
    });
    REQUIRE(note != m.notes.end());
    CHECK_THAT(*note, ContainsSubstring("`straight_through` false"));
    CHECK(value(m.graph, "W").trainable);
    CHECK(gradient_stops(m.graph).empty());
    ImportOptions off;
    off.straight_through = false;
    CHECK(detached(import_text(f, text, off).graph).empty());
  }
}

// For every estimator f, the value is f(x), and the gradient is that of the model in which x replaces f(x).
TEST_CASE("the gradient of an estimator is that of its input", "[straight]") {
  const TempDir f;
  const std::map<std::string, HostTensor> feeds{{"x", floats({2, 4}, {0.3, -0.7, 1.1, 0.2, -0.4, 0.9, 0.05, -1.3})}};
  const std::string softmax = "p = Softmax <axis = 1> (h)  ";
  for (const auto& [form, plain] : std::vector<std::pair<std::string, std::string>>{
           {"q = Round (h)  d = Sub (q, h)  z = Add (h, d)", "z = Identity (h)"},
           {"q = Sign (h)  d = Sub (h, q)  z = Sub (h, d)", "z = Identity (h)"},
           {"q = Floor (h)  s = Add (h, q)  z = Sub (s, h)", "z = Identity (h)"},
           {softmax + "c = Greater (p, zero)  q = Cast <to = 1> (c)  d = Sub (q, p)  z = Add (d, p)",
            softmax + "z = Identity (p)"}}) {
    INFO(form);
    ImportOptions off;
    off.straight_through = false;
    const Run with = run(import_text(f, model(form)).graph, feeds, true),
              written = run(import_text(f, model(form), off).graph, feeds, true),
              input = run(import_text(f, model(plain)).graph, feeds, true);
    CHECK(with.out.at("y").to_doubles() == written.out.at("y").to_doubles());
    CHECK(with.grads.at("W").to_doubles() == input.grads.at("W").to_doubles());
    CHECK(with.grads.at("W").to_doubles() != written.grads.at("W").to_doubles());
  }
}

TEST_CASE("a difference that has a gradient is no estimator", "[straight]") {
  const TempDir f;
  for (const char* form : {"q = Tanh (h)  d = Sub (q, h)  z = Add (h, d)", "d = Sub (one, h)  z = Add (h, d)",
                           "r = Round (h)  t = Tanh (h)  q = Add (r, t)  d = Sub (q, h)  z = Add (h, d)",
                           "q = Round (h)  d = Sub (q, h)  z = Mul (h, d)"}) {
    INFO(form);
    CHECK(detached(import_text(f, model(form)).graph).empty());
  }
}

TEST_CASE("nodes at which gradients stop are named with what they cut off", "[straight]") {
  const TempDir f;
  ImportOptions o;
  o.gradient_stops = true;
  o.trainable = {"W"};
  for (const char* op : {"Round", "Sign", "Floor", "Ceil"}) {
    const Imported m = import_text(f, model(cat("z = ", op, " (h)")), o);
    const auto note = std::find_if(m.notes.begin(), m.notes.end(),
                                   [](const std::string& n) { return n.find("gradients stop at") == 0; });
    REQUIRE(note != m.notes.end());
    CHECK_THAT(*note, ContainsSubstring(op) && ContainsSubstring("'W'") && ContainsSubstring("1 weight gets none"));
  }
  CHECK(gradient_stops(import_text(f, model("z = Tanh (h)")).graph).empty());
  // The gradient takes another path around the Round.
  CHECK(gradient_stops(import_text(f, model("q = Round (h)  z = Add (q, h)")).graph).empty());
}

// w + (clip(round(w / s)) s - w).detach() in which the exporter folded w / s: `folded` is not a weight.
TEST_CASE("rounding of a trained tensor is named", "[straight]") {
  const TempDir f;
  ImportOptions o;
  o.gradient_stops = true;
  o.trainable = {"folded", "w"};
  const auto notes_of = [&](const std::string& body) {
    const Imported m = import_text(f,
                                   R"(<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,2] x) => (float[N,3] y)
        <float[2,3] w = {0.3,-0.7,1.1,0.2,-0.4,0.9}, float[2,3] folded = {3.1,-7.2,11.3,2.2,-4.1,9.4}> { )" +
                                       body + "  y = MatMul (x, z) }",
                                   o);
    return std::count_if(m.notes.begin(), m.notes.end(), [](const std::string& n) {
      return n.find("the gradient of 'folded' leaves out") == 0 && n.find("`freeze`") != std::string::npos;
    });
  };
  for (const char* op : {"Round", "Floor", "Ceil", "Sign"}) {
    INFO(op);
    CHECK(notes_of(cat("q = ", op, " (folded)  d = Sub (q, folded)  z = Add (d, w)")) == 1);
  }
  // Nothing is reported for a straight-through estimator, nor for an operator that does not round.
  CHECK(notes_of("q = Round (folded)  d = Sub (q, folded)  s = Add (folded, d)  z = Add (s, w)") == 0);
  CHECK(notes_of("q = Tanh (folded)  d = Sub (q, folded)  z = Add (d, w)") == 0);
}

// A model by onnxruntime's quantize_dynamic. The product is linear, so its gradient is that of the floating weights.
TEST_CASE("a dynamically quantized product has the gradient of its floating one", "[straight]") {
  const TempDir f;
  const std::string by = GENERATE("float v47 = {0.0123}, int8 v48 = {0}",
                                  "float[4] v47 = {0.0123,0.02,0.011,0.3}, int8[4] v48 = {0,1,2,3}");
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,4] y)
    <float[4] gamma = {1.1,0.9,1.2,0.8}, float[4] beta = {0.1,0.2,0.3,0.1}, int8[4,4] W = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, )" +
                           by + R"(, float[4] bias = {0.1,0.2,0.3,0.4}, int64[1] flat = {1},
     int64[1] first = {0}>
    { n = LayerNormalization <axis = -1> (x, gamma, beta) )";
  // Exporters reshape and cast a scale before the product.
  const std::string scaled = GENERATE("t = Mul (s, v47)",
                                      "a = Reshape (s, flat)  b = Unsqueeze (a, first)  d = Identity (b)  "
                                      "e = Transpose (d)  r = Squeeze (e, first)  u = Cast <to = 1> (r)  "
                                      "t = Mul (u, v47)",
                                      "o = Mul (s, v47)  a = Unsqueeze (o, first)  t = Squeeze (a, first)");
  const std::string product =
      GENERATE("c = Cast <to = 1> (i)",
               "c0 = Cast <to = 1> (i)  c1 = Identity (c0)  c2 = Unsqueeze (c1, first)  c = Squeeze (c2, first)");
  INFO(scaled << ' ' << product);
  const Imported m = import_text(f, head + R"(q, s, z = DynamicQuantizeLinear (n)
      i = MatMulInteger (q, W, z, v48)  )" +
                                        product + "  " + scaled + R"(  p = Mul (c, t)
      y = Add (bias, p) })");
  const Imported plain = import_text(f, head + R"(w = DequantizeLinear <axis = 1> (W, v47, v48)
      p = MatMul (n, w)  y = Add (bias, p) })");
  const std::map<std::string, HostTensor> feeds{{"x", floats({2, 4}, {0.3, -0.7, 1.1, 0.2, -0.4, 0.9, 0.05, -1.3})}};
  const Run integers = run(m.graph, feeds, true), floating = run(plain.graph, feeds, true);
  for (const char* name : {"gamma", "beta", "bias"}) {
    INFO(name);
    const std::vector<double> a = integers.grads.at(name).to_doubles(), b = floating.grads.at(name).to_doubles();
    for (size_t k = 0; k < b.size(); ++k) CHECK(a[k] == Catch::Approx(b[k]).epsilon(1e-5));
  }
  CHECK(value(m.graph, "v47").kind == SourceKind::constant);
  CHECK(value(m.graph, "gamma").trainable);
  CHECK(value(m.graph, "bias").trainable);
  CHECK(gradient_stops(m.graph).empty());
}

TEST_CASE("a weight over its quantization step, which the exporter computed, is no weight", "[straight]") {
  const TempDir f;
  // c = W / s, as torch.onnx folds it.
  const auto trains = [&](const std::string& s, const std::string& c, const std::string& body) {
    const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,3] y)
      <float[4,3] W = {0.5,-1.25,0.75, 1.5,0.25,-0.5, -0.375,0.625,1.125, 0.875,-0.25,0.4}, )" +
                                          s + ", float[4,3] c = " + c + ", float low = {-8}, float high = {7}> { " +
                                          body + " y = MatMul (x, w) }");
    std::vector<std::string> out;
    for (const SourceValue& v : m.graph.values) {
      if (v.kind == SourceKind::parameter && v.trainable) out.push_back(v.name);
    }
    return out;
  };
  const std::string by_half = "{1,-2.5,1.5, 3,0.5,-1, -0.75,1.25,2.25, 1.75,-0.5,0.8}",
                    by_column = "{1,-2.5,0.75, 3,0.5,-0.5, -0.75,1.25,1.125, 1.75,-0.5,0.4}",
                    other = "{1,-2.5,1.5, 3,0.5,-1, -0.75,1.25,2.25, 1.75,-0.5,0.9}";
  const std::string through = "r = Round (c) k = Clip (r, low, high) d = Sub (k, c) e = Mul (d, s) w = Add (W, e)";
  const auto holds = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [s, c, body] :
       {std::tuple<std::string, std::string, std::string>{"float s = {0.5}", by_half, through},
        {"float[3] s = {0.5, 0.5, 1}", by_column, through},
        {"float[1,3] s = {0.5, 0.5, 1}", by_column, "r = Floor (c) d = Sub (r, c) e = Mul (s, d) w = Add (e, W)"},
        {"float s = {0.5}", by_half, "r = Round (c) q = Mul (r, s) d = Sub (q, W) w = Add (W, d)"}}) {
    INFO(body);
    const std::vector<std::string> names = trains(s, c, body);
    CHECK_FALSE(holds(names, "c"));
    CHECK(holds(names, "W"));
  }
  CHECK(holds(trains("float s = {0.5}", other, through), "c"));  // here c differs from W / s
}
