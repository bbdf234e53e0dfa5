// Tests storage and types of weights: bfloat16, float64, several external files, offsets beyond 2 GiB. Also tests
// omitted and empty parts of files: sizes of zero, node names, optional inputs in the middle, initializers listed as
// inputs.
#include <catch2/catch_approx.hpp>
#include <cmath>
#include <set>

#include "backend/interpreter.h"
#include "base/npz.h"
#include "graph/bind.h"
#include "importer/read/tensor.h"
#include "importer/write/export.h"
#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::vector<double> outputs_of(const SourceGraph& g, const std::map<std::string, HostTensor>& feeds) {
  Graph graph;
  Builder b(graph, cpu_evaluator());
  const ParamTable table(g);
  BindOptions o;
  o.outputs = g.outputs;
  for (const auto& [name, t] : feeds) o.input_dims[name] = t.dims();
  const Bound bound = bind(g, table, o, b);
  graph.outputs.push_back({"y", bound.values[static_cast<size_t>(g.outputs.at(0))]});
  std::vector<HostTensor> params;
  for (const int v : table.source_value) params.push_back(g.values[static_cast<size_t>(v)].data.cast(DType::f32));
  return interpret(graph, feeds, params).outputs.at("y").to_doubles();
}

HostTensor floats(Dims dims, const std::vector<double>& v) {
  return HostTensor::of<double>(std::move(dims), v).cast(DType::f32);
}

// Returns the model y = Cast(MatMul(Cast(x), w)) with w of the given element type.
onnx::ModelProto typed_model(onnx::TensorProto::DataType type, DType dtype) {
  onnx::ModelProto m = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,3] y) <float[2,3] w = {0.5,-1,2,4,0.25,-3}>
    { c = Cast <to = 1> (x)  h = MatMul (c, w)  y = Cast <to = 1> (h) })");
  auto& w = *m.mutable_graph()->mutable_initializer(0);
  w = encode(HostTensor::of<double>({2, 3}, {0.5, -1, 2, 4, 0.25, -3}).cast(dtype), "w");
  m.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(type);
  return m;
}

void external(onnx::TensorProto& t, const std::string& location, int64_t offset, int64_t length) {
  t.clear_float_data();
  t.clear_raw_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"location", location}, {"offset", cat(offset)}, {"length", cat(length)}}) {
    auto& e = *t.add_external_data();
    e.set_key(key), e.set_value(value);
  }
}

}  // namespace

TEST_CASE("weights in bfloat16 and float64 are trained as float32 and written back in their own type", "[storage]") {
  const TempDir f;
  for (const auto& [type, dtype] :
       {std::pair{onnx::TensorProto::BFLOAT16, DType::bf16}, {onnx::TensorProto::DOUBLE, DType::f64}}) {
    INFO(name_of(dtype));
    const std::string path = save(f, typed_model(type, dtype));
    const Imported m = import_model(path);
    const SourceValue& w = value(m.graph, "w");
    CHECK(w.trainable);
    CHECK(w.data.dtype() == dtype);
    CHECK(outputs_of(m.graph, {{"x", floats({1, 2}, {1, 2})}}) == std::vector<double>{8.5, -0.5, -4});
    export_model(*m.doc, m.graph, {}, {}, f / "same.onnx");
    CHECK(bytes_of(f / "same.onnx") == bytes_of(path));
    const int index = m.graph.find("w");
    export_model(*m.doc, m.graph, {{index, floats({2, 3}, {1, 2, 3, 4, 5, 0.1})}}, {}, f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    const HostTensor& back = value(again.graph, "w").data;
    CHECK(back.dtype() == dtype);
    CHECK(back.to_doubles()[4] == 5);
    CHECK(back.to_doubles()[5] == Catch::Approx(0.1).epsilon(dtype == DType::bf16 ? 4e-3 : 1e-7));
  }
}

TEST_CASE("external data in several files, in folders, one beyond 2 GiB", "[storage]") {
  const TempDir f;
  onnx::ModelProto m = parse(kMlp);
  const Imported inside = import_model(save(f, m, "inside.onnx"));
  const auto payload = [&](const char* name) {
    const HostTensor& t = value(inside.graph, name).data;
    return std::string(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
  };
  constexpr int64_t kFar = (int64_t{5} << 29) + 4096;  // 2.5 GiB: the file is sparse
  std::filesystem::create_directory(f.path / "weights");
  write_bytes(f / "weights/a.bin", payload("w0"));
  write_bytes(f / "b.bin", "....." + payload("b0"));
  write_bytes(f / "far.bin", "");
  std::filesystem::resize_file(f / "far.bin", static_cast<uintmax_t>(kFar));
  std::ofstream(f / "far.bin", std::ios::binary | std::ios::app) << payload("w1");
  auto& g = *m.mutable_graph();
  external(*g.mutable_initializer(0), "weights/a.bin", 0, 48);
  external(*g.mutable_initializer(1), "b.bin", 5, 12);
  external(*g.mutable_initializer(2), "far.bin", kFar, 24);
  const Imported outside = import_model(save(f, m, "outside.onnx"));
  for (const char* name : {"w0", "b0", "w1", "b1"}) {
    INFO(name);
    CHECK(value(outside.graph, name).data.to_doubles() == value(inside.graph, name).data.to_doubles());
    CHECK(value(outside.graph, name).trainable);
  }
}

TEST_CASE("every byte but 0 of an external boolean is true", "[storage]") {
  const TempDir f;
  std::ofstream(f / "flags.bin", std::ios::binary) << std::string("\0\x02\xff\x01", 4);
  onnx::ModelProto m = parse(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,4] y) <bool[4] keep = {0,0,0,0}, float zero = {0}> { y = Where (keep, x, zero) })");
  auto& keep = *m.mutable_graph()->mutable_initializer(0);
  keep.clear_int32_data();
  external(keep, "flags.bin", 0, 4);
  const HostTensor got = value(import_model(save(f, m)).graph, "keep").data;
  const auto* bytes = static_cast<const uint8_t*>(got.data());
  CHECK(std::vector<int>(bytes, bytes + 4) == std::vector<int>{0, 1, 1, 1});
}

TEST_CASE("sizes of zero, nodes without a name, inputs left out in the middle, initializers among the inputs",
          "[storage]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 3, opset_import: ["" : 11]>
    g (float[N,4] x, float[4,2] w, float[0] nothing, float top) => (float[N,2] y)
    <float[4,2] w = {1,2,3,4,5,6,7,8}, float[0] nothing = {}, float top = {20}>
    { h = MatMul (x, w)  e = Reshape (h, again)  again = Shape (h)  c = Clip (e, , top)
      flat = Flatten (c)  d = Slice (flat, zero, zero, one)  zero = Constant <value = int64[1] {0}> ()  one = Constant <value = int64[1] {1}> ()
      y = Concat <axis = 1> (c, d) })");
  CHECK(m.graph.inputs.size() == 1);
  CHECK(value(m.graph, "w").trainable);
  CHECK(!value(m.graph, "nothing").trainable);
  std::set<std::string> names;
  for (const SourceNode& n : m.graph.nodes) CHECK((!n.name.empty() && names.insert(n.name).second));
  CHECK(outputs_of(m.graph, {{"x", floats({1, 4}, {1, 1, 1, 1})}}) == std::vector<double>{16, 20});
  CHECK(outputs_of(m.graph, {{"x", floats({0, 4}, {})}}).empty());
}

TEST_CASE("a weight that only a loop's body reads is trained, one that lies inside it too", "[storage]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,2,3,4}, int64 three = {3}, bool yes = {1}>
    { n = Shape (x)  k = ReduceProd <keepdims = 0> (n)
      y = Loop (k, yes, x) <body = b (int64 i, bool go, float[N,2] h) => (bool on, float[N,2] next)
        { on = Identity (go)  inner = Constant <value = float[2] {1, 2}> ()  p = MatMul (h, w)  next = Add (p, inner) }> })");
  CHECK(value(m.graph, "w").trainable);
  CHECK(value(m.graph, "w").reason.find("Loop") != std::string::npos);
  CHECK(value(m.graph, "inner").trainable);
  CHECK(outputs_of(m.graph, {{"x", floats({1, 2}, {1, 0})}}) == std::vector<double>{15, 22});
}
