// Tests that tensors that an exporter merged because of equal values become one weight per module again. The modules
// are recognized by Identity nodes, which TorchScript's exporter writes, or by node paths, which onnxsim and onnxslim
// keep.
#include <cmath>

#include "base/text.h"
#include "importer/discover/describe.h"
#include "importer/write/export.h"
#include "models.h"
#include "tests/importer/run.h"
#include "tests/importer/values.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns the model x -> l1 -> b1 -> l2 -> b2, in which the eight tensors of the norms b1 and b2 are merged into two.
// With `aliases`, names of Identity nodes distinguish the norms; otherwise node paths do.
onnx::ModelProto merged_norms(bool aliases, const std::string& second = "b2") {
  onnx::ModelProto m = parse(R"(<ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] l1_weight = {0.31,-0.217,0.113,0.71}, float[2,2] l2_weight = {0.42,0.119,-0.613,0.24},
     float[2] b1_weight = {1,1}, float[2] b1_bias = {0,0}>
    { h = MatMul (x, l1_weight)  n = BatchNormalization (h, b1_weight, b1_bias, b1_bias, b1_weight)  r = Relu (n)
      k = MatMul (r, l2_weight)  y = BatchNormalization (k, b1_weight, b1_bias, b1_bias, b1_weight) })");
  auto& g = *m.mutable_graph();
  const auto dotted = [](std::string s) {
    for (const char* module : {"l1", "l2", "b1"}) {
      if (s.rfind(std::string(module) + "_", 0) == 0) s[2] = '.';
    }
    return s;
  };
  for (auto& t : *g.mutable_initializer()) t.set_name(dotted(t.name()));
  const std::string paths[] = {"/l1/MatMul", "/b1/BatchNormalization", "/Relu", "/l2/MatMul",
                               "/" + second + "/BatchNormalization"};
  for (int i = 0; i < g.node_size(); ++i) {
    auto& n = *g.mutable_node(i);
    n.set_name(aliases ? "" : paths[i]);
    for (auto& in : *n.mutable_input()) in = dotted(in);
  }
  if (!aliases) return m;
  const auto identity = [&](const std::string& from, const std::string& to) {
    auto& n = *g.add_node();
    n.set_op_type("Identity");
    n.add_input(from);
    n.add_output(to);
  };
  identity("b1.bias", "b1.running_mean");
  identity("b1.weight", "b1.running_var");
  identity("b1.weight", "b2.weight");
  identity("b1.bias", "b2.bias");
  identity("b2.bias", "b2.running_mean");
  identity("b1.weight", "b2.running_var");
  const std::string names[2][4] = {{"b1.weight", "b1.bias", "b1.running_mean", "b1.running_var"},
                                   {"b2.weight", "b2.bias", "b2.running_mean", "b2.running_var"}};
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < 4; ++i) g.mutable_node(k ? 4 : 1)->set_input(i + 1, names[k][i]);
  }
  onnx::GraphProto sorted;  // the Identity nodes first, as the exporter writes them
  for (int i = 5; i < g.node_size(); ++i) *sorted.add_node() = g.node(i);
  for (int i = 0; i < 5; ++i) *sorted.add_node() = g.node(i);
  g.mutable_node()->Swap(sorted.mutable_node());
  return m;
}

std::vector<double> outputs(const SourceGraph& g) {
  const std::map<std::string, HostTensor> feeds{{"x", HostTensor::of<float>({2, 2}, {0.3f, -1.2f, 0.8f, 0.5f})}};
  return run(g, feeds).out.at("y").to_doubles();
}

TrainedTensor trained_to(const Imported& m, const std::string& name, std::vector<float> v) {
  const HostTensor& old = value(m.graph, name).data;
  return {m.graph.find(name), HostTensor::of<float>(old.dims(), std::move(v))};
}

}  // namespace

TEST_CASE("merged scales and biases are one weight for each module", "[merged]") {
  const TempDir f;
  for (const bool aliases : {true, false}) {
    INFO((aliases ? "Identity nodes" : "node paths"));
    const std::string path = save(f, merged_norms(aliases));
    const Imported m = import_model(path);
    for (const char* name : {"b1.weight", "b1.bias", "b2.weight", "b2.bias"}) CHECK(value(m.graph, name).trainable);
    for (const char* name : {"b1.running_mean", "b1.running_var", "b2.running_mean", "b2.running_var"}) {
      CHECK(value(m.graph, name).kind == SourceKind::constant);
    }
    CHECK(count_parameters(m.graph).tensors == 6);
    const auto said = std::count_if(m.notes.begin(), m.notes.end(), [](const std::string& n) {
      return n.find("2 weights have no tensor of their own") == 0 && n.find("`tie_weights` file") != std::string::npos;
    });
    CHECK(said == 1);
    // Without training, export gives the same file. After training, every module has its values and statistics.
    export_model(*m.doc, m.graph, {}, {}, f / "same.onnx");
    CHECK(bytes_of(f / "same.onnx") == bytes_of(path));
    export_model(*m.doc, m.graph, {trained_to(m, "b1.weight", {2, 3}), trained_to(m, "b2.bias", {0.5f, -0.25f})}, {},
                 f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    CHECK(value(again.graph, "b1.weight").data.to_doubles() == std::vector<double>{2, 3});
    CHECK(value(again.graph, "b2.bias").data.to_doubles() == std::vector<double>{0.5, -0.25});
    SourceGraph want = m.graph;
    want.values[static_cast<size_t>(want.find("b1.weight"))].data = HostTensor::of<float>({2}, {2, 3});
    want.values[static_cast<size_t>(want.find("b2.bias"))].data = HostTensor::of<float>({2}, {0.5f, -0.25f});
    CHECK(outputs(again.graph) == outputs(want));
    // A second export keeps names and values.
    export_model(*again.doc, again.graph, {trained_to(again, "b2.weight", {1.5f, 1})}, {}, f / "twice.onnx");
    const Imported twice = import_model(f / "twice.onnx");
    CHECK(value(twice.graph, "b2.weight").data.to_doubles() == std::vector<double>{1.5, 1});
    CHECK(value(twice.graph, "b1.weight").data.to_doubles() == std::vector<double>{2, 3});
    ImportOptions o;
    o.split_merged = false;
    const Imported file = import_model(path, o);
    CHECK(count_parameters(file.graph).tensors == 4);
    CHECK(file.graph.find("b2.weight") < 0);
  }
}

TEST_CASE("running statistics that were merged move apart", "[merged]") {
  const TempDir f;
  for (const bool aliases : {true, false}) {
    ImportOptions o;
    o.batchnorm_train = true;
    const Imported m = import_model(save(f, merged_norms(aliases)), o);
    const int first = m.graph.find("b1.running_mean"), second = m.graph.find("b2.running_mean");
    REQUIRE(first >= 0);
    REQUIRE(second >= 0);
    for (const int v : {first, second}) CHECK(m.graph.values[static_cast<size_t>(v)].kind == SourceKind::parameter);
    export_model(*m.doc, m.graph,
                 {trained_to(m, "b1.running_mean", {0.1f, 0.2f}), trained_to(m, "b2.running_mean", {7, 8})}, {},
                 f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    CHECK(value(again.graph, "b1.running_mean").data.to_doubles() ==
          HostTensor::of<float>({2}, {0.1f, 0.2f}).to_doubles());
    CHECK(value(again.graph, "b2.running_mean").data.to_doubles() == std::vector<double>{7, 8});
    CHECK(value(again.graph, "b1.bias").data.to_doubles() == std::vector<double>{0, 0});
  }
}

TEST_CASE("a module that runs twice stays one, and so do equal learned values", "[merged]") {
  const TempDir f;
  // b1_1: the second call of b1 in TorchScript's names.
  const Imported twice = import_model(save(f, merged_norms(false, "b1_1")));
  CHECK(count_parameters(twice.graph).tensors == 4);
  onnx::ModelProto m = merged_norms(true);
  for (auto& t : *m.mutable_graph()->mutable_initializer()) {
    if (t.name() != "b1.weight") continue;
    t.clear_float_data();
    t.clear_raw_data();
    for (const float x : {1.25f, 0.75f}) t.add_float_data(x);
  }
  // One tensor for the scales, two for the zero biases.
  CHECK(count_parameters(import_model(save(f, m)).graph).tensors == 5);
  const Imported learned = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
    g (float[N,3] x) => (float[N,3] y) <float[3,3] w = {0.31,-0.2,0.11,0.7,0.9,-0.5,0.3,0.22,0.41}>
    { v = Identity (w)  h = MatMul (x, w)  y = MatMul (h, v) })");
  CHECK(count_parameters(learned.graph).tensors == 1);
}

TEST_CASE("views of one parameter that the exporter recorded are one weight", "[merged]") {
  const TempDir f;
  onnx::ModelProto m = parse(R"(<ir_version: 8, opset_import: ["" : 18], producer_name: "pytorch">
    g (float[N,2] x) => (float[N,2] y)
    <float[2,4] w = {0.31,-0.217,0.113,0.71,0.42,0.119,-0.613,0.24}, float[4,2] view = {0.31,-0.217,0.113,0.71,0.42,0.119,-0.613,0.24}>
    { h = MatMul (x, w)  y = MatMul (h, view) })");
  auto& signature = *m.mutable_graph()->add_metadata_props();
  signature.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature.set_value("\n# inputs\np_w: PARAMETER target='w'\n# outputs\ny: USER_OUTPUT\n");
  auto& info = *m.mutable_graph()->add_value_info();
  info.set_name("view");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  auto& from = *info.add_metadata_props();
  from.set_key("pkg.onnxscript.optimizer.folded_from");
  from.set_value("['w']");
  const Imported tied = import_model(save(f, m));
  CHECK(value(tied.graph, "view").tied_to == tied.graph.find("w"));
  CHECK_FALSE(value(tied.graph, "view").tied_transposed);
  CHECK(count_parameters(tied.graph).tensors == 1);
  ImportOptions o;
  o.tie_weights_auto = false;
  const Imported apart = import_model(f / "model.onnx", o);
  CHECK(count_parameters(apart.graph).tensors == 2);
  // The gradient of the single weight is the sum of the gradients of its views, element by element.
  const std::map<std::string, HostTensor> feeds{{"x", floats({3, 2}, {0.3, -1.2, 0.8, 0.5, 1, 2})}};
  const Run one = run(tied.graph, feeds, true), two = run(apart.graph, feeds, true);
  CHECK(one.out.at("y").to_doubles() == two.out.at("y").to_doubles());
  const Numbers sum = one.grads.at("w").to_doubles(), a = two.grads.at("w").to_doubles(),
                b = two.grads.at("view").to_doubles();
  for (size_t i = 0; i < sum.size(); ++i) CHECK(std::fabs(sum[i] - a[i] - b[i]) < 1e-5);  // sums of a few fp32 products
  // Export writes both tensors in their own dims.
  const std::vector<float> moved = {1, 2, 3, 4, 5, 6, 7, 8};
  export_model(*tied.doc, tied.graph, {trained_to(tied, "w", moved)}, {}, f / "out.onnx");
  const Imported again = import_model(f / "out.onnx");
  CHECK(value(again.graph, "view").data.dims() == Dims{4, 2});
  CHECK(value(again.graph, "view").data.to_doubles() == value(again.graph, "w").data.to_doubles());
}
