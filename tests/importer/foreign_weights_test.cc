// Tests weights and constants in files of other exporters and of models with unusual buffers. Whether a tensor is
// trained follows from how operators use it and from its values. The constants are those of real models (Sobel, DCT,
// mel, adjacency) next to weights without structure. "__" stands for "." in names.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "importer/discover/describe.h"
#include "importer/discover/fixed_pattern.h"
#include "models.h"
#include "tests/importer/beside_a_layer.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

double hann(int64_t i, int64_t n) {
  return 0.5 - 0.5 * std::cos(2 * M_PI * static_cast<double>(i) / static_cast<double>(n));
}

struct Fixed {
  const char* what;
  const char* dims;
  int64_t count;
  Formula value;
};

// Returns fixed matrices by which x [N,8] or [N,16] may be multiplied.
std::vector<Fixed> fixed_matrices() {
  static const double yuv[] = {0.299, 0.587, 0.114, -0.14713, -0.28886, 0.436, 0.615, -0.51499, -0.10001};
  return {
      {"Hadamard", "8,8", 64,
       [](int64_t i) { return __builtin_popcountll(static_cast<uint64_t>((i / 8) & (i % 8))) % 2 ? -1. : 1.; }},
      {"DCT", "8,8", 64,
       [](int64_t i) { return std::cos(M_PI / 8 * (static_cast<double>(i % 8) + 0.5) * static_cast<double>(i / 8)); }},
      {"Haar", "4,4", 16,
       [](int64_t i) {
         static const double h[] = {0.5,        0.5,         0.5, 0.5, 0.5, 0.5, -0.5,       -0.5,
                                    0.70710678, -0.70710678, 0,   0,   0,   0,   0.70710678, -0.70710678};
         return h[i];
       }},
      {"windowed Fourier basis", "10,64", 640,
       [](int64_t i) {
         return hann(i % 64, 64) *
                std::cos(2 * M_PI * static_cast<double>(i / 64 + 1) * static_cast<double>(i % 64) / 64);
       }},
      {"Fourier basis by columns", "64,10", 640,
       [](int64_t i) {
         return hann(i / 10, 64) *
                std::sin(2 * M_PI * static_cast<double>(i % 10 + 1) * static_cast<double>(i / 10) / 64);
       }},
      {"mel filters", "33,6", 198,
       [](int64_t i) {
         const double bin = static_cast<double>(i / 6), center = 3.7 * std::pow(1.45, static_cast<double>(i % 6)),
                      width = 0.4 * center;
         return std::max(0.0, 1 - std::fabs(bin - center) / width) / width;
       }},
      {"normalized adjacency", "6,6", 36,
       [](int64_t i) {
         const int64_t a = i / 6, b = i % 6;
         const double d[] = {2, 3, 3, 4, 3, 3};
         return std::abs(a - b) <= 1 || a * b == 0 ? 1 / std::sqrt(d[a] * d[b]) : 0;
       }},
      {"row-stochastic transition", "5,5", 25,
       [](int64_t i) {
         double sum = 0;
         for (int64_t k = 0; k < 5; ++k) sum += 1 + std::fabs(learned(i / 5 * 5 + k));
         return (1 + std::fabs(learned(i))) / sum;
       }},
      {"color matrix", "3,3", 9, [](int64_t i) { return yuv[i]; }},
      {"Sobel", "1,1,3,3", 9, [](int64_t i) { return static_cast<double>((i % 3 - 1) * (i / 3 == 1 ? 2 : 1)); }},
      {"blur of every channel", "4,1,3,3", 36,
       [](int64_t i) {
         const double b[] = {1, 2, 1};
         return b[i % 3] * b[i / 3 % 3] / 16;
       }},
      {"Gabor", "4,1,7,7", 196,
       [](int64_t i) {
         const double x = static_cast<double>(i % 7 - 3), y = static_cast<double>(i / 7 % 7 - 3),
                      t = 0.7 * static_cast<double>(i / 49) + 0.2;
         return std::exp(-(x * x + y * y) / 8) * std::cos(1.1 * (x * std::cos(t) + y * std::sin(t)) + 0.4);
       }},
      {"Gaussian", "1,1,5,5", 25,
       [](int64_t i) {
         const double x = static_cast<double>(i % 5) - 1.8, y = static_cast<double>(i / 5) - 2.1;
         return std::exp(-(x * x + 2 * y * y) / 3);
       }},
      {"db2 wavelet pair", "2,1,4", 8,
       [](int64_t i) {
         const double h[] = {-0.12940952, 0.22414387, 0.8365163, 0.48296291};
         return i < 4 ? h[i] : h[7 - i] * (i % 2 ? 1 : -1);
       }},
  };
}

HostTensor floats_of(const std::string& dims, int64_t n, const Formula& f) {
  Dims shape;
  for (const std::string& d : amp::split(dims, ',')) shape.push_back(std::stoll(d));
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(f(i)));
  return HostTensor::of<float>(shape, values);
}

}  // namespace

TEST_CASE("fixed matrices and filters are told from drawn values", "[foreign]") {
  for (const Fixed& c : fixed_matrices()) {
    INFO(c.what);
    const auto found = fixed_pattern(floats_of(c.dims, c.count, c.value));
    REQUIRE(found);
    CHECK(found->certain);
    // Random weights of the same shape have no pattern, neither with both signs nor with one sign.
    CHECK_FALSE(fixed_pattern(floats_of(c.dims, c.count, learned)));
    CHECK_FALSE(fixed_pattern(floats_of(c.dims, c.count, [](int64_t i) { return std::fabs(learned(i)) + 0.01; })));
    // Random weights of which half are pruned, or that are rounded to 16 bits, have no pattern either.
    const auto pruned = [](int64_t i) { return learned(i + 7) > 0 ? learned(i) : 0.0; };
    if (c.count > 16) CHECK_FALSE(fixed_pattern(floats_of(c.dims, c.count, pruned)));
    CHECK_FALSE(fixed_pattern(floats_of(c.dims, c.count, learned).cast(DType::f16)));
  }
}

TEST_CASE("fixed matrices do not train whatever their name, weights do", "[foreign]") {
  for (const Fixed& c : fixed_matrices()) {
    const HostTensor t = floats_of(c.dims, c.count, c.value);
    const std::string rows = cat(t.dims().size() == 2 ? t.dims()[0] : 0);
    for (const char* name : {"m__k", "m__proj", "onnxXXMatMul_9", "k"}) {
      INFO(c.what << " as " << name);
      const bool conv = t.dims().size() > 2;
      const std::string product =
          conv ? cat("c = Conv (z, ", name, ")  f = Flatten (c)") : cat("f = MatMul (z, ", name, ")");
      const std::string input =
          conv ? (t.dims().size() == 3 ? ", float[N,1,12] z" : cat(", float[N,", t.dims()[1], ",16,16] z"))
               : cat(", float[N,", rows, "] z");
      const onnx::ModelProto m = beside_a_layer(tensor_of(c.dims, name, c.count, c.value) + ", int64[1] ax = {1}",
                                                product + " s = ReduceMean (f, ax)  y = Add (h, s)", input);
      const Verdicts v = judge(m);
      INFO(v.of(dotted(name)).text());
      CHECK_FALSE(v.trains(dotted(name)));
      CHECK(v.trains("fc.weight"));
    }
  }
  for (const char* name : {"m__k", "adaptive_bins_layer__conv__weight", "anchors_head__3__weight",
                           "rotary_mixer__proj__weight", "onnxXXMatMul_9"}) {
    INFO(name);
    CHECK(judge(beside_a_layer(tensor_of("8,4", name, 32, learned), cat("y = MatMul (h, ", name, ")")))
              .trains(dotted(name)));
  }
  const Verdicts bias = judge(
      beside_a_layer("float[8] bins_bias = {0.31234,0.112345,-0.5,0.71,0.9,0.2,-0.1,0.6}", "y = Add (h, bins_bias)"));
  CHECK(bias.trains("bins_bias"));
}

TEST_CASE("the vectors of a spectral norm do not train, its weight does", "[foreign]") {
  const auto unit = [](int64_t i) { return learned(i + 40) / 1.3; };
  for (const auto& [w, u, v] : {std::array{"sn__weight_orig", "sn__weight_u", "sn__weight_v"},
                                std::array{"sn__original", "sn__0__a", "sn__0__b"}, std::array{"W", "c1", "c2"}}) {
    INFO(w);
    const Verdicts j = judge(beside_a_layer(
        cat(tensor_of("8,8", w, 64, [](int64_t i) { return learned(i + 300); }), ", ", tensor_of("8", u, 8, unit), ", ",
            tensor_of("8", v, 8, [](int64_t i) { return learned(i + 60); })),
        cat("wv = MatMul (", w, ", ", v, ")  sigma = MatMul (", u, ", wv)  wn = Div (", w,
            ", sigma)  y = Gemm <transB = 1> (h, wn)")));
    INFO(j.of(dotted(u)).text());
    CHECK(j.trains(dotted(w)));
    CHECK_FALSE(j.trains(dotted(u)));
    CHECK_FALSE(j.trains(dotted(v)));
  }
  // The scale of a weight norm is the numerator of a quotient. It is trained.
  const Verdicts j = judge(beside_a_layer(cat(tensor_of("8,8", "wn__weight_v", 64, learned), ", ",
                                              tensor_of("8,1", "wn__weight_g", 8, unit), ", int64[1] one = {1}"),
                                          "n = ReduceL2 (wn__weight_v, one)  s = Div (wn__weight_g, n)  w = Mul "
                                          "(wn__weight_v, s)  y = Gemm <transB = 1> (h, w)"));
  CHECK(j.trains("wn.weight_g"));
  CHECK(j.trains("wn.weight_v"));
}

TEST_CASE("scalers of inputs and targets do not train, what acts on an input may", "[foreign]") {
  const Verdicts j = judge(beside_a_layer(
      "float[8] target_scaler__mean_ = {10.37,-3.11,0.77,1.5,2.25,-8.1,0.3,4.4}, float[8] target_scaler__scale_ = "
      "{2.13,0.71,5.9,1.1,2.2,3.3,0.4,0.9}",
      "s = Mul (h, target_scaler__scale_)  y = Add (s, target_scaler__mean_)"));
  CHECK_FALSE(j.trains("target_scaler.mean_"));
  CHECK_FALSE(j.trains("target_scaler.scale_"));
  // Prototypes are subtracted from every row, a strength multiplies a noise input, and ReZero scalars multiply
  // branches.
  const Verdicts p = judge(beside_a_layer(cat(tensor_of("1,4,8", "onnxXXSub_17", 32, learned),
                                              ", int64[1] one = {1}, int64[1] two = {2}, float strength = {0.1537}"),
                                          "xu = Unsqueeze (x, one)  d = Sub (xu, onnxXXSub_17)  q = Mul (d, d)  r = "
                                          "ReduceSum <keepdims = 0> (q, two)  n = Mul "
                                          "(strength, noise)  s = ReduceSum (h, one)  t = Add (r, s)  y = Add (t, n)",
                                          ", float[N,4] noise"));
  CHECK(p.trains("onnx::Sub_17"));
  CHECK((p.trains("strength") || p.of("strength").unsure()));
  const Verdicts z = judge(beside_a_layer("float z__0 = {0.0413}, float z__1 = {0}",
                                          "a = Mul (z__0, h)  b = Add (x, a)  c = Mul (z__1, b)  y = Add (b, c)"));
  for (const char* name : {"z.0", "z.1"}) CHECK((z.trains(name) || z.of(name).unsure()));
}

TEST_CASE("weights that enter a Loop or Scan as inputs train, its first state does not", "[foreign]") {
  const std::string loop = R"(<ir_version: 8, opset_import: ["" : 18]>
    g (float[N,4] x) => (float[N,4] y) <int64 five = {5}, bool yes = {1}, )" +
                           tensor_of("4,4", "cell/kernel/ReadVariableOp:0", 16, learned) + ", " +
                           tensor_of("4", "cell/bias/ReadVariableOp:0", 4, [](int64_t i) { return learned(i + 50); }) +
                           ", " + tensor_of("4,4", "first", 16, [](int64_t i) { return learned(i + 80); }) + R"(>
    { y, w_out, b_out = Loop (five, yes, first, W, B) <body = b (int64 i, bool go, float[N,4] h, float[4,4] w, float[4] b)
        => (bool on, float[N,4] h1, float[4,4] w1, float[4] b1)
        { on = Identity (go)  p = MatMul (h, w)  q = Add (p, b)  h1 = Tanh (q)  w0 = Identity (w)  w1 = Identity (w0)  b1 = Identity (b) }> })";
  std::string text = loop;  // names with slashes and colons are set below, because the text form does not support them
  for (const auto& [from, to] :
       {std::pair{"cell/kernel/ReadVariableOp:0", "W"}, std::pair{"cell/bias/ReadVariableOp:0", "B"}}) {
    text.replace(text.find(from), std::string(from).size(), to);
  }
  const auto renamed = [&](const std::string& w, const std::string& b) {
    onnx::ModelProto m = parse(text);
    const auto set = [&](std::string& s) { s = s == "W" ? w : s == "B" ? b : s; };
    for (auto& t : *m.mutable_graph()->mutable_initializer()) set(*t.mutable_name());
    for (auto& n : *m.mutable_graph()->mutable_node()) {
      for (auto& i : *n.mutable_input()) set(i);
    }
    return judge(m);
  };
  for (const auto& [w, b] :
       {std::pair{"cell/kernel/ReadVariableOp:0", "cell/bias/ReadVariableOp:0"}, std::pair{"W", "B"}}) {
    const Verdicts j = renamed(w, b);
    INFO(j.of(w).text());
    CHECK(j.trains(w));
    CHECK(j.trains(b));
    CHECK((!j.trains("first") || j.of("first").unsure()));
  }
  const Verdicts scan =
      judge(parse(R"(<ir_version: 8, opset_import: ["" : 18]>
    g (float[4,4] x) => (float[4,4] y) <)" +
                  tensor_of("3,4,4", "layers", 48, learned) + ", " + tensor_of("4,4", "shared", 16, learned) + R"(>
    { y, k = Scan <num_scan_inputs = 1, body = b (float[4,4] h, float[4,4] s, float[4,4] w) => (float[4,4] h1, float[4,4] s1)
        { p = MatMul (h, w)  q = MatMul (p, s)  h1 = Tanh (q)  s1 = Identity (s) }> (x, shared, layers) })"));
  CHECK(scan.trains("layers"));
  CHECK(scan.trains("shared"));
}

TEST_CASE("an exporter's own tensors are no weights though dots count them", "[foreign]") {
  // paddle2onnx writes LayerNorm (below opset 17) and GELU in this form.
  const std::string tensors =
      cat(tensor_of("8,8", "linear_0__w_0", 64, [](int64_t i) { return learned(i + 9); }),
          ", float helper__constant__1 = {2}, float helper__constant__0 = {0.00001}, float[8] "
          "helper__reshape__0 = {1,1,1,1,1,1,1,1}, float[8] helper__reshape__1 = {0,0,0,0,0,0,0,0}, "
          "float helper__constant__2 = {1.4142135}, float[1] auto__cast__2 = {0.5}, int64[1] ax = {1}");
  const Verdicts j = judge(beside_a_layer(
      tensors,
      "a = MatMul (h, linear_0__w_0)  m = ReduceMean (a, ax)  d = Sub (a, m)  q = Pow (d, helper__constant__1)  v = "
      "ReduceMean (q, ax)  "
      "ve = Add (v, helper__constant__0)  r = Sqrt (ve)  o = Div (d, r)  s = Mul (o, helper__reshape__0)  t = Add (s, "
      "helper__reshape__1)  e = Div (t, helper__constant__2)  y = Mul (e, auto__cast__2)",
      "", ""));
  for (const char* name : {"linear_0.w_0", "helper.reshape.0", "helper.reshape.1"}) {
    INFO(j.of(name).text());
    CHECK(j.trains(name));
  }
  for (const char* name : {"helper.constant.0", "helper.constant.1", "helper.constant.2", "auto.cast.2"})
    CHECK_FALSE(j.trains(name));
}

TEST_CASE("weights train in Constant nodes when the file keeps them there", "[foreign]") {
  onnx::ModelProto m =
      beside_a_layer(cat(tensor_of("8,8", "linear_0__w_0", 64, [](int64_t i) { return learned(i + 9); }), ", ",
                         tensor_of("8", "linear_0__b_0", 8, [](int64_t i) { return learned(i + 90); }),
                         ", float[8] norm__w_0 = {1,1,1,1,1,1,1,1}, float eps = {0.00001}"),
                     "a = MatMul (h, linear_0__w_0)  b = Add (a, linear_0__b_0)  c = LayerNormalization <axis = -1> "
                     "(b, norm__w_0)  y = Mul (c, eps)",
                     "", "");
  auto& g = *m.mutable_graph();
  onnx::GraphProto nodes;
  for (const auto& t : g.initializer()) {
    auto& n = *nodes.add_node();
    n.set_op_type("Constant");
    n.add_output(t.name());
    auto& a = *n.add_attribute();
    a.set_name("value");
    a.set_type(onnx::AttributeProto::TENSOR);
    *a.mutable_t() = t;
  }
  for (const auto& n : g.node()) *nodes.add_node() = n;
  g.clear_initializer();
  g.mutable_node()->Swap(nodes.mutable_node());
  const Verdicts j = judge(m);
  for (const char* name : {"fc.weight", "fc.bias", "linear_0.w_0", "linear_0.b_0", "norm.w_0"}) {
    INFO(name << ": " << j.of(name).text());
    CHECK(j.trains(name));
  }
  CHECK_FALSE(j.trains("eps"));
  size_t left = 0;
  CHECK(warn_if_mostly_frozen(j.m.graph, j.m.verdicts).empty());
  CHECK(flags_for_unsure(j.m.graph, j.m.verdicts, 9, left).find("fc.weight") == std::string::npos);
}

TEST_CASE("scales and zero points of quantizers never train", "[foreign]") {
  const std::string packed =
      cat("uint8[8,1,16] q = {", listed(128, [](int64_t i) { return static_cast<double>(i % 251); }), "}");
  const Verdicts j =
      judge(beside_a_layer(packed + ", " +
                               tensor_of("8", "layers__0__q_proj__weight_scale", 8,
                                         [](int64_t i) { return 0.01 + 0.001 * std::fabs(learned(i)); }) +
                               ", " + tensor_of("8,32", "up", 256, learned),
                           "u = Gemm <transB = 0> (h, up)  y = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, "
                           "block_size = 32> (u, q, layers__0__q_proj__weight_scale)"));
  CHECK_FALSE(j.trains("layers.0.q_proj.weight_scale"));
  CHECK(j.trains("up"));
  const Verdicts d = judge(
      beside_a_layer("int8[8,4] wq = {" + listed(32, [](int64_t i) { return static_cast<double>(i * 37 % 120 - 60); }) +
                         "}, float[4] w_scale = {0.0123,0.0234,0.0111,0.0199}",
                     "a, s, z = DynamicQuantizeLinear (h)  i = MatMulInteger (a, wq, z)  f = Cast <to = 1> (i)  k = "
                     "Mul (s, w_scale)  y = Mul (f, k)"));
  CHECK_FALSE(d.trains("w_scale"));
}

TEST_CASE("a run of which little trains says so", "[foreign]") {
  const Verdicts j = judge(beside_a_layer(
      tensor_of("64,64", "basis", 4096,
                [](int64_t i) {
                  return std::cos(M_PI / 64 * (static_cast<double>(i % 64) + 0.5) * static_cast<double>(i / 64));
                }) +
          ", int64[1] ax = {1}",
      "p = MatMul (z, basis)  s = ReduceMean (p, ax)  y = Add (h, s)", ", float[N,64] z"));
  CHECK_FALSE(j.trains("basis"));
  const std::string text = warn_if_mostly_frozen(j.m.graph, j.m.verdicts);
  CHECK(text.find("only 64 of 4,160 elements") != std::string::npos);
  CHECK(text.find("`trainable` basis") != std::string::npos);
}
