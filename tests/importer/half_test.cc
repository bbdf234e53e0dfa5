// Tests the conversion to fp16: types, and operators for which ONNX does not permit fp16. The ONNX checker runs inside
// export_model().
#include <limits>
#include <set>

#include "importer/write/export.h"
#include "models.h"
#include "run.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

static onnx::ModelProto half(const TempDir& f, const Imported& m, std::vector<std::string>* notes = nullptr) {
  ExportOptions o;
  o.precision = "fp16";
  const ExportReport r = export_model(*m.doc, m.graph, {}, o, f / "half.onnx");
  if (notes) *notes = r.notes;
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "half.onnx")));
  return p;
}

TEST_CASE("weights and arithmetic are fp16, inputs and outputs stay", "[half]") {
  const TempDir f;
  const onnx::ModelProto p = half(f, import_text(f, kMlp));
  CHECK(p.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
  CHECK(p.graph().output(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
  CHECK(p.graph().output(0).name() == "y");
  CHECK(p.graph().node(0).op_type() == "Cast");
  CHECK(p.graph().node(p.graph().node_size() - 1).op_type() == "Cast");
  CHECK(p.graph().node_size() == 5 + 2);
  const SourceGraph g = import_model(f / "half.onnx").graph;
  CHECK(value(g, "w0").data.dtype() == DType::f16);
  CHECK(value(g, "shape").data.dtype() == DType::i64);
  CHECK(value(g, "b0").data.to_doubles()[0] == static_cast<double>(static_cast<float>(Half(0.1f))));
}

TEST_CASE("masks become safe, epsilons survive, oversized weights are refused", "[half]") {
  const TempDir f;
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x, bool[N,2] keep) => (float[N,2] y)
    <float[2,2] w = {1,2,3,4}, float low = {-3.4e38}, float zero = {0}, float eps = {1e-12}>
    { h = MatMul (x, w)  m = Where (keep, zero, low)  a = Add (h, m)  y = Add (a, eps) })";
  std::vector<std::string> notes;
  half(f, import_text(f, text), &notes);
  const SourceGraph g = import_model(f / "half.onnx").graph;
  CHECK(value(g, "low").data.to_doubles() == std::vector<double>{-32752});
  CHECK(value(g, "eps").data.to_doubles() == std::vector<double>{0x1p-24});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("low") != std::string::npos);
  CHECK(notes[1].find("eps") != std::string::npos);
  onnx::ModelProto big = parse(text);
  big.mutable_graph()->mutable_initializer(0)->set_float_data(1, 1e5f);
  const Imported m = import_model(save(f, big));
  try {
    half(f, m);
    FAIL("no error");
  } catch (const Error& e) {
    expect(e, Exit::numerical, "E_EXPORT_RANGE", "'w'");
  }
}

TEST_CASE("operators without fp16 keep float32 between casts", "[half]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 13]> g (float[1,1,4,4] x, float limit) => (float[1,1,8,8] y, float[M] r2)
    <float[0] roi = {}, float[4] scales = {1,1,2,2}, float start = {0}, float step = {1}, float[1,1,4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>
    { h = Mul (x, w)  y = Resize <mode = "nearest"> (h, roi, scales)  twice = Add (limit, limit)
      r = Range (start, twice, step)  r2 = Relu (r) })");
  const onnx::ModelProto p = half(f, m);
  const SourceGraph g = import_model(f / "half.onnx").graph;
  CHECK(value(g, "scales").data.dtype() == DType::f32);
  CHECK(value(g, "start").data.dtype() == DType::f32);
  CHECK(value(g, "w").data.dtype() == DType::f16);
}

TEST_CASE("small exported models convert and pass the checker", "[half]") {
  const TempDir f;
  for (const char* name :
       {"store_constants_hand13", "store_views_hand14", "store_shared_hand13", "store_inputs_hand11",
        "struct_functions_hand17", "struct_if_hand16", "store_fp16_hand17", "store_qdq_int8_hand13", "norms_ts18",
        "equal_init_ts14", "sklearn_mlp_hand15", "struct_optional_hand17", "rnn_lstm_nofold_ts14"}) {
    INFO(name);
    const onnx::ModelProto p = half(f, import_model(kData + name + ".onnx"));
    for (const auto& t : p.graph().initializer()) {
      if (name == std::string("store_qdq_int8_hand13")) break;  // DequantizeLinear-13 supports float32 scales only
      CHECK(t.data_type() != onnx::TensorProto::FLOAT);
    }
  }
}

TEST_CASE("masks become half of the lowest number, but for -inf under a NaN guard and for bounds", "[half]") {
  const TempDir f;
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x, bool[N,2] keep) => (float[N,2] y)
    <float a = {-3.4028235e38}, float b = {-65504}, float c = {-inf}, float d = {1e9}, float lo = {-3.4e38}, float e = {-10000},
     float big = {1e6}, float zero = {0}>
    { p = Where (keep, zero, a)  q = Where (keep, p, b)  r = Where (keep, q, c)  s = Mul (r, d)  t = Clip (s, lo)
      u = Add (t, e)  v = Softmax (u)  GUARD w = Div (v, big)  y = Add (w, x) })";
  const auto number = [&](const char* name) {
    return value(import_model(f / "half.onnx").graph, name).data.to_doubles()[0];
  };
  for (const bool guard : {false, true}) {
    std::string model = text;
    model.replace(model.find("GUARD"), 5, guard ? "n = IsNaN (v)" : "");
    if (guard)
      model.replace(model.find("Div (v"), 6, "Div (vv").insert(model.find("w = Div"), "vv = Where (n, zero, v)  ");
    std::vector<std::string> notes;
    half(f, import_text(f, model), &notes);
    CHECK(number("a") == -32752);
    CHECK(number("b") == -32752);
    CHECK(number("c") == (guard ? -std::numeric_limits<double>::infinity() : -32752));
    CHECK(number("d") == 32752);
    CHECK(number("lo") == -65504);
    CHECK(number("e") == -10000);
    CHECK(number("big") == 1e6);  // stays float32, because it is a divisor
    REQUIRE(notes.size() == 2);
    CHECK(notes[0].find("masks became half of the lowest number") != std::string::npos);
    CHECK(notes[1].find("lo") != std::string::npos);
  }
}

namespace {

// Exports the model in mixed precision and returns the file. low: the first outputs of the 16-bit nodes.
onnx::ModelProto mixed(const TempDir& f, const Imported& m, const std::set<std::string>& low, DType type = DType::f16) {
  ExportOptions o;
  o.precision = "mixed";
  for (const SourceNode& n : m.graph.nodes) {
    const bool is = low.count(m.graph.values[static_cast<size_t>(n.outputs[0])].name) != 0;
    o.compute.push_back(is ? type : DType::f32);
  }
  export_model(*m.doc, m.graph, {}, o, f / "mixed.onnx");
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "mixed.onnx")));
  return p;
}

std::string text_of(const onnx::ModelProto& p) {
  std::string out;
  for (const auto& n : p.graph().node()) {
    out += n.output(0) + " = " + n.op_type() + "(";
    for (const auto& i : n.input()) out += (&i == &n.input(0) ? "" : ", ") + i;
    out += n.op_type() == "Cast" ? cat(", ", n.attribute(0).i(), ")\n") : ")\n";
  }
  return out;
}

int type_of(const onnx::ModelProto& p, const std::string& name) {
  for (const auto& t : p.graph().initializer()) {
    if (t.name() == name) return t.data_type();
  }
  return -1;
}

}  // namespace

TEST_CASE("a mixed export computes each node in its plan's type", "[half]") {
  const TempDir f;
  const Imported m = import_text(f, kMlp);
  const auto p = mixed(f, m, {"h", "y"});
  CHECK(text_of(p) ==
        "x__float16 = Cast(x, 10)\n"
        "h = MatMul(x__float16, w0)\n"
        "h__float = Cast(h, 1)\n"
        "a = Add(h__float, b0)\n"
        "r = Relu(a)\n"
        "s = Reshape(r, shape)\n"
        "s__float16 = Cast(s, 10)\n"
        "y__float16 = Gemm(s__float16, w1, b1)\n"
        "y = Cast(y__float16, 1)\n");
  CHECK(type_of(p, "w0") == onnx::TensorProto::FLOAT16);
  CHECK(type_of(p, "b0") == onnx::TensorProto::FLOAT);
  CHECK(type_of(p, "w1") == onnx::TensorProto::FLOAT16);
  CHECK(p.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
  CHECK(p.graph().output(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
  CHECK(type_of(mixed(f, m, {"h", "y"}, DType::bf16), "w0") == onnx::TensorProto::BFLOAT16);
}

TEST_CASE("a mixed export of an fp32 plan is the file", "[half]") {
  const TempDir f;
  mixed(f, import_text(f, kMlp), {});
  CHECK(bytes_of(f / "mixed.onnx") == bytes_of(f / "model.onnx"));
}

TEST_CASE("mixed export: shared weights, outputs that others read, casts made once", "[half]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] a, float[2,2] d, int64[2] n)
    <float[2,2] w = {1,2,3,4}, float[2,2] v = {5,6,7,8}, float low = {-3.4e38}>
    { i = Identity (v)  a = MatMul (x, w)  b = MatMul (a, i)  c = MatMul (b, w)  e = Exp (a)  n = Shape (b)
      k = Add (e, low)  g = Mul (k, w)  d = MatMul (g, c) })");
  const auto p = mixed(f, m, {"a", "b", "c", "d"});
  CHECK(type_of(p, "w") == onnx::TensorProto::FLOAT);    // an fp32 node reads it too
  CHECK(type_of(p, "v") == onnx::TensorProto::FLOAT16);  // has the type of the node that reads the Identity
  CHECK(type_of(p, "low") == onnx::TensorProto::FLOAT);
  const std::string text = text_of(p);
  INFO(text);
  CHECK(text.find("w__float16 = Cast(w, 10)") == text.rfind("w__float16 = Cast("));
  CHECK(text.find("a__float16 = MatMul(x__float16, w__float16)\na = Cast(a__float16, 1)\n") != std::string::npos);
  CHECK(text.find("b = MatMul(a__float16, i)\n") != std::string::npos);
  CHECK(text.find("e = Exp(a)\n") != std::string::npos);
  CHECK(text.find("n = Shape(b)\n") != std::string::npos);
}

TEST_CASE("small models export in mixed precision and pass the checker, whatever the plan", "[half]") {
  const TempDir f;
  for (const char* name :
       {"store_constants_hand13", "store_views_hand14", "store_shared_hand13", "store_inputs_hand11",
        "struct_functions_hand17", "struct_if_hand16", "store_fp16_hand17", "store_qdq_int8_hand13", "norms_ts18",
        "equal_init_ts14", "sklearn_mlp_hand15", "struct_optional_hand17", "rnn_lstm_nofold_ts14"}) {
    const Imported m = import_model(kData + name + ".onnx");
    for (unsigned pattern = 0; pattern < 4; ++pattern) {  // 16-bit nodes: none, every second, every third, all
      INFO(name << " pattern " << pattern);
      std::set<std::string> low;
      for (size_t n = 0; n < m.graph.nodes.size(); ++n) {
        if (pattern == 3 || (pattern > 0 && n % (pattern + 1) == 0))
          low.insert(m.graph.values[static_cast<size_t>(m.graph.nodes[n].outputs[0])].name);
      }
      mixed(f, m, low);
      import_model(f / "mixed.onnx");
    }
  }
}

TEST_CASE("mixed export leaves statistics in float32 where the operator allows it", "[half]") {
  const TempDir f;
  for (const int64_t opset : {13, 15}) {
    const Imported m = import_text(f, cat(R"(
      <ir_version: 8, opset_import: ["" : )",
                                          opset, R"(]> g (float[N,2] x) => (float[N,2] y)
      <float[2] s = {1,2}, float[2] b = {3,4}, float[2] mean = {5,6}, float[2] v = {7,8}>
      { y = BatchNormalization (x, s, b, mean, v) })"));
    const auto p = mixed(f, m, {"y"});
    for (const char* name : {"s", "b", "mean", "v"}) {
      CHECK(type_of(p, name) == (opset == 15 ? onnx::TensorProto::FLOAT : onnx::TensorProto::FLOAT16));
    }
  }
}

namespace {

onnx::ModelProto whole(const TempDir& f, const Imported& m, const std::vector<TrainedTensor>& trained = {}) {
  ExportOptions o;
  o.precision = "fp32";
  export_model(*m.doc, m.graph, trained, o, f / "whole.onnx");
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "whole.onnx")));
  return p;
}

// Returns the element types that the graph contains, except those of the file's inputs and outputs.
std::set<int> stated_types(const onnx::GraphProto& g) {
  std::set<int> out;
  for (const auto& t : g.initializer()) out.insert(t.data_type());
  for (const auto& v : g.value_info()) out.insert(v.type().tensor_type().elem_type());
  for (const auto& n : g.node()) {
    for (const auto& a : n.attribute()) {
      if (a.has_t()) out.insert(a.t().data_type());
      if (a.has_g()) out.merge(stated_types(a.g()));
      const bool border = n.op_type() == "Cast" && n.name().find("/Cast") != std::string::npos;
      if ((a.name() == "to" || a.name() == "dtype") && !border) out.insert(static_cast<int>(a.i()));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a file in 16 bits becomes one in float32, inputs and outputs stay", "[half]") {
  const TempDir f;
  for (const std::string type : {"float16", "bfloat16"}) {
    INFO(type);
    const bool half = type == "float16";
    const auto t = [&](std::string text) {
      for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
      const std::string number = half ? "10" : "16";
      for (size_t at; (at = text.find("#")) != std::string::npos;) text.replace(at, 1, number);
      return text;
    };
    onnx::ModelProto p = parse(t(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (T[N,2] x, float[N,2] z) => (T[N,2] y, float[N,2] u)
      { c = Constant <value = T[2] {1, 2}> ()  k = Cast <to = #> (z)  s = Add (x, k)  h = MatMul (s, w)
        e = Add (h, c)  u = Cast <to = 1> (e)  y = Relu (e) })"));
    const HostTensor w = floats({2, 2}, {0.5, 0.25, -1, 2});
    auto& added = *p.mutable_graph()->add_initializer();
    const HostTensor low = w.cast(half ? DType::f16 : DType::bf16);
    added.set_name("w");
    added.set_data_type(half ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::BFLOAT16);
    added.add_dims(2), added.add_dims(2);
    added.set_raw_data(low.data(), static_cast<size_t>(low.bytes()));
    const Imported m = import_model(save(f, p));
    const std::map<std::string, HostTensor> feeds = {
        {"x", floats({1, 2}, {1, 2}).cast(half ? DType::f16 : DType::bf16)}, {"z", floats({1, 2}, {3, 4})}};
    const onnx::ModelProto out = whole(f, m);
    CHECK(out.graph().input(0).type().tensor_type().elem_type() == added.data_type());
    CHECK(out.graph().output(0).type().tensor_type().elem_type() == added.data_type());
    CHECK(stated_types(out.graph()) == std::set<int>{onnx::TensorProto::FLOAT});
    const SourceGraph g = import_model(f / "whole.onnx").graph;
    CHECK(value(g, "w").data.dtype() == DType::f32);
    CHECK(run(g, feeds).out.at("u").to_doubles() == run(m.graph, feeds).out.at("u").to_doubles());
    // Trained weights keep all bits.
    const int v = m.graph.find("w");
    const HostTensor fine = floats({2, 2}, {0.1, 0.2, 0.3, 0.7});
    whole(f, m, {{v, fine}});
    CHECK(value(import_model(f / "whole.onnx").graph, "w").data.to_doubles() == fine.to_doubles());
    // Without a requested type the file keeps its type.
    export_model(*m.doc, m.graph, {}, {}, f / "same.onnx");
    CHECK(bytes_of(f / "same.onnx") == p.SerializeAsString());
  }
}

TEST_CASE("branches in 16 bits, weights as outputs and float32 files are converted or left", "[half]") {
  const TempDir f;
  const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float16[2] x, bool c) => (float16[2] y, float16[2] k) <float16[2] k = {1, 2}>
    { h = Mul (x, k)
      y = If (c) <then_branch = a () => (float16[2] p) <float16[2] b = {3, 4}> { p = Add (h, b) },
                  else_branch = e () => (float16[2] q) { q = Add (h, x) }> })");
  const onnx::ModelProto out = whole(f, m);
  CHECK(stated_types(out.graph()) == std::set<int>{onnx::TensorProto::FLOAT});
  CHECK(out.graph().output(1).name() == "k");
  const Imported plain = import_text(f, kMlp);
  CHECK(whole(f, plain).SerializeAsString() == parse(kMlp).SerializeAsString());
}

TEST_CASE("outputs of branches that are no floating-point numbers keep their types in 16 bits", "[half]") {
  const TempDir f;
  const onnx::ModelProto p = half(f, import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, bool c) => (float[2] y, int64[1] n, bool[2] large) <float[2] k = {1, 2}>
    { h = Mul (x, k)
      y, n, large = If (c) <then_branch = a () => (float[2] p, int64[1] s, bool[2] u)
                              { p = Add (h, k) s = Shape (p) u = Greater (p, k) },
                            else_branch = e () => (float[2] q, int64[1] t, bool[2] v)
                              { q = Sub (h, k) t = Shape (q) v = Less (q, k) }> })"));
  size_t branches = 0;
  for (const auto& n : p.graph().node()) {
    for (const auto& a : n.attribute()) {
      if (!a.has_g()) continue;
      ++branches;
      const auto type = [&](int i) { return a.g().output(i).type().tensor_type().elem_type(); };
      CHECK(type(0) == onnx::TensorProto::FLOAT16);
      CHECK(type(1) == onnx::TensorProto::INT64);
      CHECK(type(2) == onnx::TensorProto::BOOL);
    }
  }
  CHECK(branches == 2);
}

// ConstantOfShape supports bfloat16 from opset 20 on, Constant and Cast from 13 on. The checker runs inside
// export_model.
TEST_CASE("a fill whose opset has no bfloat16 stays float32", "[half]") {
  for (const int opset : {13, 17, 20}) {
    INFO(opset);
    const TempDir f;
    const Imported m = import_text(f, R"(
      <ir_version: 8, opset_import: ["" : )" +
                                          std::to_string(opset) + R"(]> g (float[N,2] x) => (float[N,2] y)
      <float[2,2] w = {1,2,3,4}>
      { h = MatMul (x, w)  s = Shape (h)  zero = ConstantOfShape (s)  one = ConstantOfShape <value = float[1] {1}> (s)
        a = Add (h, zero)  b = Mul (a, one)  y = Relu (b) })");
    ExportOptions o;
    o.precision = "mixed";
    o.compute.assign(m.graph.nodes.size(), DType::bf16);
    export_model(*m.doc, m.graph, {}, o, f / "half.onnx");
    onnx::ModelProto p;
    REQUIRE(p.ParseFromString(bytes_of(f / "half.onnx")));
    for (const onnx::NodeProto& n : p.graph().node()) {
      if (n.op_type() != "ConstantOfShape") continue;
      const bool low = n.attribute_size() > 0 && n.attribute(0).t().data_type() == onnx::TensorProto::BFLOAT16;
      CHECK(low == (opset >= 20));
    }
  }
}
