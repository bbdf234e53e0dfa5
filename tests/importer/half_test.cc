// Conversion to fp16: types, and where the ONNX operators allow none. The checker runs inside export_model.
#include "importer/export.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

static onnx::ModelProto half(const Folder& f, const Imported& m, std::vector<std::string>* notes = nullptr) {
  ExportOptions o;
  o.precision = "fp16";
  const ExportReport r = export_model(*m.doc, m.graph, {}, o, f / "half.onnx");
  if (notes) *notes = r.notes;
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "half.onnx")));
  return p;
}

TEST_CASE("weights and arithmetic are fp16, inputs and outputs stay", "[half]") {
  const Folder f;
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

TEST_CASE("masks are clamped, epsilons survive, oversized weights are refused", "[half]") {
  const Folder f;
  const std::string text = R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x, bool[N,2] keep) => (float[N,2] y)
    <float[2,2] w = {1,2,3,4}, float low = {-3.4e38}, float zero = {0}, float eps = {1e-12}>
    { h = MatMul (x, w)  m = Where (keep, zero, low)  a = Add (h, m)  y = Add (a, eps) })";
  std::vector<std::string> notes;
  half(f, import_text(f, text), &notes);
  const SourceGraph g = import_model(f / "half.onnx").graph;
  CHECK(value(g, "low").data.to_doubles() == std::vector<double>{-65504});
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
  const Folder f;
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
  const Folder f;
  for (const char* name :
       {"store_constants_hand13", "store_views_hand14", "store_shared_hand13", "store_inputs_hand11",
        "struct_functions_hand17", "struct_if_hand16", "store_fp16_hand17", "store_qdq_int8_hand13", "norms_ts18",
        "equal_init_ts14", "sklearn_mlp_hand15", "struct_optional_hand17", "rnn_lstm_nofold_ts14"}) {
    INFO(name);
    const onnx::ModelProto p = half(f, import_model(kData + name + ".onnx"));
    for (const auto& t : p.graph().initializer()) {
      if (name == std::string("store_qdq_int8_hand13")) break;  // DequantizeLinear-13 knows float32 scales only
      CHECK(t.data_type() != onnx::TensorProto::FLOAT);
    }
  }
}
