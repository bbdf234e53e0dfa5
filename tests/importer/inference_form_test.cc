// Tests files that were exported in training form: the notes at import, and the inference form of exports.
#include <algorithm>

#include "importer/write/export.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

namespace {

bool noted(const std::vector<std::string>& notes, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& n) { return n.find(text) != std::string::npos; });
}

onnx::ModelProto exported(const TempDir& f, const Imported& m, std::vector<std::string>* notes = nullptr) {
  ExportOptions o;
  o.inference_form = true;
  const ExportReport r = export_model(*m.doc, m.graph, {}, o, f / "out.onnx");
  if (notes) *notes = r.notes;
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "out.onnx")));
  return p;
}

const onnx::NodeProto& node_of(const onnx::ModelProto& m, const std::string& op) {
  for (const auto& n : m.graph().node()) {
    if (n.op_type() == op) return n;
  }
  FAIL("no " << op);
  throw 0;
}

}  // namespace

TEST_CASE("a Dropout in training mode is exported in inference form", "[inference_form]") {
  const TempDir f;
  for (const std::string mode : {"initializer", "node"}) {
    INFO(mode);
    const bool held = mode == "initializer";
    const Imported m = import_text(f, std::string(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,2,3,4}, float r = {0.5})") +
                                          (held ? ", bool t = {1}" : "") + "> {" +
                                          (held ? "" : "t = Constant <value = bool {1}> () ") +
                                          "h = MatMul (x, w)  d, mask = Dropout (h, r, t)  y = Relu (d) }");
    CHECK(noted(m.notes, "1 Dropout nodes are in training mode; an export has them in inference form"));
    const onnx::ModelProto p = exported(f, m);
    CHECK(node_of(p, "Dropout").input_size() == 2);
    CHECK(node_of(p, "Dropout").output_size() == 1);
    CHECK(p.graph().initializer_size() == 2);  // no unused initializer remains
    CHECK(p.graph().node_size() == 3);
    CHECK_FALSE(noted(import_model(f / "out.onnx").notes, "Dropout"));
  }
}

TEST_CASE("a Dropout whose mode or mask something else decides or reads stays as far as it must", "[inference_form]") {
  const TempDir f;
  {
    const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x, bool t) => (float[N,2] y) <float[2,2] w = {1,2,3,4}>
      { h = MatMul (x, w)  d = Dropout (h, , t)  y = Relu (d) })");
    // Dropout keeps its third input, because this input of the model selects the mode.
    CHECK(node_of(exported(f, m), "Dropout").input_size() == 3);
  }
  {
    const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x) => (float[N,2] y, bool[N,2] mask) <float[2,2] w = {1,2,3,4}, bool t = {1}>
      { h = MatMul (x, w)  y, mask = Dropout (h, , t) })");
    const onnx::ModelProto p = exported(f, m);
    CHECK(node_of(p, "Dropout").input_size() == 1);
    CHECK(node_of(p, "Dropout").output_size() == 2);
  }
  {
    const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x, bool c) => (float[N,2] y) <float[2,2] w = {1,2,3,4}, float r = {0.5}, bool t = {1}>
      { h = MatMul (x, w)
        y = If (c) <then_branch = a () => (float[N,2] p) { p = Dropout (h, r, t) },
                    else_branch = b () => (float[N,2] q) { q = Identity (h) }> })");
    const onnx::ModelProto p = exported(f, m);
    for (const auto& a : node_of(p, "If").attribute()) {
      if (a.name() == "then_branch") CHECK(a.g().node(0).input_size() == 2);
    }
  }
}

TEST_CASE("notes of BatchNormalization in training form say what an export does", "[inference_form]") {
  const TempDir f;
  const std::string front = R"(<ir_version: 8, opset_import: ["" : 15]> g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1,2,3,4}, float[2] s = {1,1}, float[2] b = {0,0}, float[2] m = {0,0}, float[2] v = {1,1}> {
    h = MatMul (x, w) )";
  const Imported training =
      import_text(f, front + "y, m2, v2 = BatchNormalization <training_mode = 1> (h, s, b, m, v) }");
  CHECK(noted(training.notes,
              "1 BatchNormalization nodes are in training form; an export has them in inference form: "
              "node 'BatchNormalization_1' (BatchNormalization, #1, opset 15)"));
  CHECK(node_of(exported(f, training), "BatchNormalization").output_size() == 1);
  const Imported plain = import_text(f, front + "y = BatchNormalization (h, s, b, m, v) }");
  CHECK_FALSE(noted(plain.notes, "BatchNormalization"));
  // A norm with track_running_stats=False has two forms: that of PyTorch's exporters, and single operators.
  const Imported computed = import_text(f, front + R"(
    mean = ReduceMean <axes = [0], keepdims = 0> (h)  d = Sub (h, mean)  q = Mul (d, d)
    var = ReduceMean <axes = [0], keepdims = 0> (q)  y = BatchNormalization (h, s, b, mean, var) })");
  CHECK(noted(computed.notes, "1 normalizations use statistics of the batch"));
  CHECK(noted(computed.notes, "share a batch: node 'Sub_2' (Sub, #2, opset "));
  const Imported spelled = import_text(f, front + R"(
    mean = ReduceMean <axes = [0], keepdims = 1> (h)  d = Sub (h, mean)  y = Mul (d, s) })");
  CHECK(noted(spelled.notes, "1 normalizations use statistics of the batch"));
  const Imported layer = import_text(f, front + R"(
    mean = ReduceMean <axes = [1], keepdims = 1> (h)  d = Sub (h, mean)  y = Mul (d, s) })");
  CHECK_FALSE(noted(layer.notes, "statistics of the batch"));
}
