// Tests the importer's decisions on tensors that a module uses outside of its layers: raw parameters, buffers, results
// of an optimizer. Evidence in the file is used (typed values, diagonals, inverses). Without evidence the decision is
// marked unsure.
#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <vector>

#include "importer/discover/evidence.h"
#include "importer/discover/fixed_pattern.h"
#include "tests/importer/beside_a_layer.h"

using namespace amp;
using namespace amp::test;

namespace {

double drawn(int64_t i) { return learned(i + 500); }

// Sets the names of the nodes, in their order. The first node is fc's.
onnx::ModelProto named(onnx::ModelProto m, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) m.mutable_graph()->mutable_node(static_cast<int>(i))->set_name(names[i]);
  return m;
}

HostTensor vector_of(const std::vector<double>& v) {
  return HostTensor::of<double>({static_cast<int64_t>(v.size())}, v).cast(DType::f32);
}

void into_constant_node(onnx::ModelProto& m, const std::string& from, const std::string& to) {
  auto& g = *m.mutable_graph();
  onnx::GraphProto nodes;
  auto& made = *nodes.add_node();
  made.set_op_type("Constant");
  made.add_output(to);
  auto& a = *made.add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  for (int i = 0; i < g.initializer_size(); ++i) {
    if (g.initializer(i).name() != from) continue;
    *a.mutable_t() = g.initializer(i);
    g.mutable_initializer()->DeleteSubrange(i--, 1);
  }
  for (auto& n : *g.mutable_node()) {
    for (auto& input : *n.mutable_input()) input = input == from ? to : input;
    *nodes.add_node() = n;
  }
  g.mutable_node()->Swap(nodes.mutable_node());
}

}  // namespace

TEST_CASE("tensors that a module multiplies by itself are unsure, those of layers are sure", "[raw]") {
  struct Case {
    const char *tensor, *dims;
    int64_t count;
    const char *nodes, *raw, *layer;
  };
  const Case cases[] = {
      {"m__proj", "8,6", 48, "a = MatMul (h2, m__proj)  y = Relu (a)", "/m/MatMul", "/m/proj/MatMul"},
      {"onnxXXMatMul_7", "8,6", 48, "a = MatMul (h2, onnxXXMatMul_7)  y = Relu (a)", "/m/MatMul", "/m/q/MatMul"},
      {"m__taps", "3,1,3", 9, "u = Unsqueeze (h2, ax)  c = Conv (u, m__taps)  a = Flatten (c)  y = Relu (a)", "/m/Conv",
       "/m/taps/Conv"},
      {"m__energies", "5,8", 40, "k = ArgMax <axis = 1, keepdims = 0> (h2)  a = Gather (m__energies, k)  y = Relu (a)",
       "/m/Gather", "/m/energies/Gather"},
  };
  for (const Case& c : cases) {
    // Adds two layers, because raw weights are not evidence in a file in which many weights are raw.
    const std::string more = cat(", ", tensor_of("8,8", "o__weight", 64, [](int64_t i) { return learned(i + 900); }),
                                 ", ", tensor_of("8,8", "p__weight", 64, [](int64_t i) { return learned(i + 700); }));
    onnx::ModelProto m = beside_a_layer(tensor_of(c.dims, c.tensor, c.count, drawn) + more + ", int64[1] ax = {1}",
                                        cat("h1 = MatMul (h, o__weight)  h2 = MatMul (h1, p__weight)  ", c.nodes));
    for (const bool raw : {true, false}) {
      std::vector<std::string> names;
      for (const auto& n : m.graph().node()) {
        const bool reads = std::count(n.input().begin(), n.input().end(), dotted(c.tensor)) > 0;
        const bool layer = n.op_type() == "Gemm" || n.op_type() == "MatMul";
        names.push_back(reads ? (raw ? c.raw : c.layer) : cat("/m/", layer ? n.output(0) + "/" : "", n.op_type()));
      }
      const Verdicts v = judge(named(m, names));
      INFO(c.tensor << (raw ? " raw: " : ": ") << v.of(dotted(c.tensor)).text());
      CHECK(v.trains(dotted(c.tensor)));
      CHECK(v.of(dotted(c.tensor)).unsure() == raw);
      CHECK_FALSE(v.of("fc.weight").unsure());
    }
  }
  // The name of a parameter makes the decision sure, and so does a bias.
  const auto raw = [](const std::string& tensor, const std::string& tensors, const std::string& nodes) {
    return judge(named(beside_a_layer(tensor_of("8,6", tensor, 48, drawn) + tensors, nodes),
                       {"/fc/Gemm", "/MatMul", "/Add", "/Relu"}));
  };
  CHECK_FALSE(raw("m__weight", ", float[6] m__bias = {0.1234567,0.7654321,0.2987654,-0.3456789,0.11111117,0.8765432}",
                  "a = MatMul (h, m__weight)  b = Add (a, m__bias)  y = Relu (b)")
                  .of("m.weight")
                  .unsure());
}

TEST_CASE("of the names that an exporter merged, the one of a parameter counts", "[raw]") {
  for (const auto& [kept, alias] : {std::pair{"m__weight", "m__avg"}, {"m__avg", "m__weight"}}) {
    const std::string nodes = cat(alias, " = Identity (", kept, ")  a = MatMul (h, ", alias, ")  y = Relu (a)");
    const Verdicts v = judge(beside_a_layer(tensor_of("8,6", kept, 48, drawn), nodes));
    INFO(kept << ": " << v.of(dotted(kept)).text());
    CHECK_THAT(v.of(dotted(kept)).text(), Catch::Matchers::ContainsSubstring("parameters are called 'weight'"));
    CHECK_THAT(v.of(dotted(kept)).text(), !Catch::Matchers::ContainsSubstring("buffers are called 'avg'"));
  }
}

TEST_CASE("short decimals and images of whole numbers are typed in", "[raw]") {
  const auto typed = [](const std::vector<double>& v) {
    const auto found = fixed_pattern(vector_of(v));
    return found && found->typed;
  };
  std::vector<double> roots, logs, inverses, learned_values, jittered;
  for (const double n : {21.0, 96.0, 54.0, 43.0, 30.0}) {
    roots.push_back(std::sqrt(n));
    logs.push_back(std::log(n));
    inverses.push_back(1 / n);
    jittered.push_back(std::sqrt(n + 0.01 * learned(static_cast<int64_t>(n))));
  }
  for (int64_t i = 0; i < 8; ++i) learned_values.push_back(learned(i));
  CHECK(typed(roots));
  CHECK(typed(logs));
  CHECK(typed(inverses));
  CHECK(typed({0.485, 0.456, 0.406}));
  CHECK(typed({0.229, 0.224, 0.225}));
  CHECK_FALSE(typed(jittered));
  CHECK_FALSE(typed(learned_values));
  CHECK_FALSE(fixed_pattern(vector_of(learned_values).cast(DType::f16)));
  const Verdicts v = judge(
      beside_a_layer(cat("float[8] onnxXXMul_41 = {",
                         listed(8, [](int64_t i) { return std::sqrt(17.0 + 5 * static_cast<double>(i * i)); }), "}"),
                     "y = Mul (h, onnxXXMul_41)"));
  CHECK_FALSE(v.trains("onnx::Mul_41"));
}

TEST_CASE("a convolution that only scales its channels does not train", "[raw]") {
  const auto mean_shift = [](bool permuted) {
    return [permuted](int64_t i) {
      const double scale[] = {4.3649, 4.4189, 4.4346};
      return i / 3 == (permuted ? 2 - i % 3 : i % 3) ? scale[i / 3] : 0.0;
    };
  };
  for (const bool permuted : {false, true}) {
    const Verdicts v = judge(beside_a_layer(
        cat(tensor_of("3,3,1,1", "shift__weight", 9, mean_shift(permuted)), ", ",
            tensor_of("3", "shift__bias", 3, [](int64_t i) { return -0.4488 / 0.2291 - learned(i); }),
            ", int64[3] where = {1,2,3}, int64[1] one = {1}"),
        "c = Conv (image, shift__weight, shift__bias)  f = ReduceMean <keepdims = 0> (c, where)  g = Unsqueeze (f, one)"
        "  y = Add (h, g)",
        ", float[N,3,9,9] image"));
    for (const char* name : {"shift.weight", "shift.bias"}) {
      INFO(v.of(name).text());
      CHECK((!v.trains(name) || v.of(name).unsure()));
    }
    CHECK(v.trains("fc.weight"));
    CHECK(v.trains("fc.bias"));
  }
}

TEST_CASE("what an optimizer computed is weighed by its values", "[raw]") {
  const auto in_node = [](const std::string& name, const std::string& tensor, const std::string& nodes) {
    onnx::ModelProto m = beside_a_layer(tensor, nodes);
    into_constant_node(m, "k", name);
    return judge(m);
  };
  const std::string table = tensor_of("1,8", "k", 8, drawn), add = "y = Add (h, k)";
  for (const char* name : {"/pos/Gather_output_0", "/Unsqueeze_output_0", "/m/Exp_output_0"}) {
    const Verdicts v = in_node(name, table, add);
    INFO(name << v.of(name).text());
    CHECK((v.trains(name) || v.of(name).unsure()));
  }
  const Verdicts scalar =
      in_node("/Reciprocal_output_0", "float k = {0.3127418}", "r = Relu (h)  q = Add (r, x)  y = Pow (q, k)");
  CHECK((scalar.trains("/Reciprocal_output_0") || scalar.of("/Reciprocal_output_0").unsure()));
  const Verdicts third = in_node("/Reciprocal_output_0", "float k = {0.5}", "r = Relu (h)  y = Pow (r, k)");
  CHECK_FALSE(third.trains("/Reciprocal_output_0"));
  CHECK_FALSE(third.of("/Reciprocal_output_0").unsure());
}

TEST_CASE("scalers that are undone, and means before principal components, do not train surely", "[raw]") {
  const Verdicts s = judge(beside_a_layer("float scale = {58.91}, float shift = {213.37}",
                                          "a = Sub (series, shift)  b = Div (a, scale)  c = Add (h, b)  d = Mul (c, "
                                          "scale)  y = Add (d, shift)",
                                          ", float[N,8] series"));
  for (const char* name : {"scale", "shift"}) {
    INFO(s.of(name).text());
    CHECK_FALSE(s.trains(name));
  }
  const Verdicts w = judge(beside_a_layer(cat(tensor_of("8", "m__center", 8, [](int64_t i) { return 3 * drawn(i); }),
                                              ", ", tensor_of("8,4", "m__components", 32, drawn)),
                                          "r = Relu (h)  a = Sub (r, m__center)  y = MatMul (a, m__components)"));
  for (const char* name : {"m.center", "m.components"}) {
    INFO(w.of(name).text());
    CHECK((!w.trains(name) || w.of(name).unsure()));
  }
}

TEST_CASE("a spelled out BatchNormalization of an input may train, a scaler does not", "[raw]") {
  const std::string tensors =
      cat(tensor_of("8", "a_1", 8, drawn), ", ", tensor_of("8", "b_1", 8, [](int64_t i) { return drawn(i + 30); }));
  const Verdicts norm =
      judge(beside_a_layer(tensors, "s = Mul (z, a_1)  t = Add (s, b_1)  y = Add (h, t)", ", float[N,8] z", "tf2onnx"));
  const Verdicts scaler =
      judge(beside_a_layer(tensors, "s = Sub (z, a_1)  t = Div (s, b_1)  y = Add (h, t)", ", float[N,8] z", "tf2onnx"));
  for (const char* name : {"a_1", "b_1"}) {
    INFO(norm.of(name).text());
    CHECK((norm.trains(name) || norm.of(name).unsure()));
    CHECK_FALSE(scaler.trains(name));
  }
}

TEST_CASE("a learned table that was looked up repeats its values, a function of distance does too", "[raw]") {
  const auto sum = [](double (*f)(int64_t)) {
    std::vector<double> v;
    for (int64_t i = 0; i < 256; ++i) v.push_back(f(std::abs(i / 16 - i % 16) * 2 + (i / 16 > i % 16)));
    double total = 0;
    ValueContext context;
    context.operand = context.learned = true;
    for (const Evidence& e :
         value_evidence(HostTensor::of<double>({16, 16}, v).cast(DType::f32), Naming::made_up, context))
      total += e.weight;
    return total;
  };
  CHECK(sum(drawn) >= 0);
  CHECK(sum([](int64_t i) { return -0.3 * static_cast<double>(i / 2); }) < -2);
  CHECK(sum([](int64_t i) { return std::exp(-0.1 * static_cast<double>(i)) - 0.4; }) < -2);
}

TEST_CASE("frequencies that make kernels of filters may train, those that turn data do not", "[raw]") {
  const std::string center =
      "float[6,1] center = {0.10371,0.6391,1.20417,1.7811,2.2393,2.8119}, float[1,12] t = "
      "{-6,-5,-4,-3,-2,-1,0,1,2,3,4,5}, int64[1] one = {1}";
  const std::string angle = "p = Mul (center, t)  k = Cos (p)  ";
  const Verdicts kernel = judge(beside_a_layer(
      center,
      angle + "u = Unsqueeze (k, one)  c = Conv (wave, u)  r = ReduceMax (c, one)  f = Flatten (r)  y = Relu (f)",
      ", float[N,1,20] wave"));
  INFO(kernel.of("center").text());
  CHECK((kernel.trains("center") || kernel.of("center").unsure()));
  const Verdicts turned =
      judge(beside_a_layer(center, angle + "c = Mul (k, wave)  y = Flatten (c)", ", float[N,6,12] wave"));
  CHECK_FALSE(turned.trains("center"));
}
