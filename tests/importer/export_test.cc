// Tests that an export writes the bytes of trained weights at the right offsets and changes nothing else.
#include "importer/write/export.h"

#include <onnx/checker.h>

#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>

#include "graph/limits.h"
#include "models.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

// Returns every parameter with 0.125 added; tied parameters occur only once.
static std::vector<TrainedTensor> shifted(const SourceGraph& g) {
  std::vector<TrainedTensor> out;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || v.tied_to >= 0) continue;
    const HostTensor was = v.data.cast(DType::f32);
    HostTensor now = HostTensor::empty(DType::f32, was.dims());
    for (int64_t k = 0; k < now.numel(); ++k) now.as_mutable<float>()[k] = was.as<float>()[k] + 0.125f;
    out.push_back({static_cast<int>(i), now});
  }
  return out;
}

static const std::vector<std::string> kModels = {
    "store_constants_hand13", "store_views_hand14",      "store_shared_hand13",
    "store_inputs_hand11",    "struct_functions_hand17", "struct_if_hand16",
    "store_fp16_hand17",      "store_qdq_int8_hand13",   "norms_ts18",
    "equal_init_ts14",        "sklearn_mlp_hand15",      "struct_optional_hand17",
    "rnn_lstm_nofold_ts14"};

TEST_CASE("an export without training is the imported file", "[export]") {
  const TempDir f;
  for (const std::string& name : kModels) {
    INFO(name);
    const Imported m = import_model(kData + name + ".onnx");
    export_model(*m.doc, m.graph, {}, {}, f / "out.onnx");
    CHECK(bytes_of(f / "out.onnx") == bytes_of(kData + name + ".onnx"));
  }
}

TEST_CASE("trained values come back, everything else stays", "[export]") {
  const TempDir f;
  for (const std::string& name : kModels) {
    INFO(name);
    const Imported m = import_model(kData + name + ".onnx");
    const auto trained = shifted(m.graph);
    REQUIRE(!trained.empty());
    export_model(*m.doc, m.graph, trained, {}, f / "out.onnx");
    CHECK(bytes_of(f / "out.onnx").size() == bytes_of(kData + name + ".onnx").size());
    const Imported again = import_model(f / "out.onnx");
    REQUIRE(again.graph.values.size() == m.graph.values.size());
    for (size_t i = 0; i < m.graph.values.size(); ++i) {
      const SourceValue &a = m.graph.values[i], &b = again.graph.values[i];
      INFO(a.name);
      REQUIRE(a.name == b.name);
      REQUIRE(a.data.dtype() == b.data.dtype());
      if (a.kind != SourceKind::parameter) {
        CHECK((!a.data || std::memcmp(a.data.data(), b.data.data(), static_cast<size_t>(a.data.bytes())) == 0));
        continue;
      }
      const HostTensor x = a.data.cast(DType::f32), y = b.data.cast(DType::f32);
      for (int64_t k = 0; k < x.numel(); ++k) {
        const float want = a.data.dtype() == DType::f16 ? static_cast<float>(Half(x.as<float>()[k] + 0.125f))
                                                        : x.as<float>()[k] + 0.125f;
        REQUIRE(y.as<float>()[k] == want);
      }
    }
  }
}

TEST_CASE("tied copies are written in their own layout", "[export]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]> g (int64[N] ids) => (float[N,3] y)
    <float[3,2] table = {1,2,3,4,5,6}, float[2,3] head = {1,3,5,2,4,6}, float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}>
    { e = Gather (table, ids)  h = MatMul (e, a)  i = MatMul (h, b)  y = MatMul (i, head) })");
  export_model(*m.doc, m.graph, shifted(m.graph), {}, f / "out.onnx");
  const SourceGraph g = import_model(f / "out.onnx").graph;
  CHECK(value(g, "table").data.to_doubles() == std::vector<double>{1.125, 2.125, 3.125, 4.125, 5.125, 6.125});
  CHECK(value(g, "head").data.to_doubles() == std::vector<double>{1.125, 3.125, 5.125, 2.125, 4.125, 6.125});
  CHECK(value(g, "b").data.to_doubles() == std::vector<double>{1.125, 2.125, 3.125, 4.125});
  CHECK(value(g, "head").tied_to == g.find("table"));
}

TEST_CASE("a value beyond fp16 is refused where the file stores fp16", "[export]") {
  const TempDir f;
  const Imported m = import_model(kData + "store_fp16_hand17.onnx");
  std::vector<TrainedTensor> t = shifted(m.graph);
  t[0].value.as_mutable<float>()[0] = 70000;
  try {
    export_model(*m.doc, m.graph, t, {}, f / "out.onnx");
    FAIL("no error");
  } catch (const Error& e) {
    expect(e, Exit::numerical, "E_EXPORT_RANGE", "70000");
  }
  CHECK_FALSE(std::filesystem::exists(f / "out.onnx"));
}

TEST_CASE("external data goes to a file of our own name", "[export]") {
  const TempDir f;
  const Imported m = import_model(kData + "store_external_hand17/model.onnx");
  export_model(*m.doc, m.graph, shifted(m.graph), {}, f / "out.onnx");
  CHECK(std::filesystem::exists(f / "out.onnx.data"));
  CHECK_FALSE(std::filesystem::exists(f / "weights.bin"));
  const Imported again = import_model(f / "out.onnx");
  for (const SourceValue& v : m.graph.values) {
    if (v.kind != SourceKind::parameter) continue;
    CHECK(value(again.graph, v.name).data.to_doubles()[0] == static_cast<double>(v.data.as<float>()[0] + 0.125f));
  }
  onnx::checker::check_model(f / "out.onnx", true);
}

TEST_CASE("a data file keeps its bytes where no tensor changed, also with tensors at offsets of another writer",
          "[export]") {
  const TempDir f;
  onnx::ModelProto proto = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)
    <float[2] b = {1,2}, float[2,2] w = {1,2,3,4}, float[2] c = {5,6}>
    { h = MatMul (x, w)  i = Add (h, b)  y = Add (i, c) })");
  // c is stored first, b second and w last, with gaps of zeros; offsets that overlap cannot be kept
  const auto written = [&](std::array<int64_t, 3> offsets, const std::string& name) {
    onnx::ModelProto stored = proto;
    std::string data;
    for (int i = 0; i < 3; ++i) {
      onnx::TensorProto& t = *stored.mutable_graph()->mutable_initializer(i);
      const std::vector<float> value(t.float_data().begin(), t.float_data().end());
      const size_t at = static_cast<size_t>(offsets[static_cast<size_t>(i)]), size = value.size() * sizeof(float);
      data.resize(std::max(data.size(), at + size), '\0');
      std::memcpy(data.data() + at, value.data(), size);
      t.clear_float_data();
      t.set_data_location(onnx::TensorProto::EXTERNAL);
      for (const auto& [key, text] : {std::pair<std::string, std::string>{"location", "in.bin"},
                                      {"offset", std::to_string(at)},
                                      {"length", std::to_string(size)}}) {
        auto& e = *t.add_external_data();
        e.set_key(key);
        e.set_value(text);
      }
    }
    write_bytes(f / "in.bin", data);
    write_bytes(f / "in.onnx", stored.SerializeAsString());
    const Imported m = import_model(f / "in.onnx");
    export_model(*m.doc, m.graph, {}, {}, f / name);
    const Imported again = import_model(f / name);
    for (const SourceValue& v : m.graph.values) {
      if (v.data) CHECK(value(again.graph, v.name).data.to_doubles() == v.data.to_doubles());
    }
    return std::pair(data, bytes_of(f / (name + ".data")));
  };
  const auto [before, after] = written({36, 72, 8}, "kept.onnx");
  CHECK(before.size() == 88);
  CHECK(after == before);
  // b's second element and w's first have the same bytes.
  const auto [shared, apart] = written({0, 4, 100}, "apart.onnx");
  CHECK(apart.size() > 0);
  CHECK(apart != shared);
}

TEST_CASE("parameters whose memory was given up are exported from the trained values", "[export]") {
  const TempDir f;
  onnx::ModelProto proto = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,300] x) => (float[N,5] y)
    <float[5] small = {1,2,3,4,5}>
    { h = MatMul (x, wide)  c = Cast <to = 1> (half)  i = MatMul (h, c)  j = MatMul (i, back)  y = Add (j, small) })");
  const auto add = [&](const std::string& name, const HostTensor& t) {
    onnx::TensorProto& to = *proto.mutable_graph()->add_initializer();
    to.set_name(name);
    to.set_data_type(t.dtype() == DType::f16 ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT);
    for (const int64_t d : t.dims()) to.add_dims(d);
    to.set_raw_data(t.data(), static_cast<size_t>(t.bytes()));
  };
  std::vector<float> numbers(300 * 200);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000) / 64;
  add("wide", HostTensor::of<float>({300, 200}, numbers));
  add("half", HostTensor::of<float>({200, 200}, {numbers.begin() + 7, numbers.end()}).cast(DType::f16));
  add("back", HostTensor::of<float>({200, 5}, numbers));
  const std::string path = save(f, proto);

  Imported m = import_model(path);
  std::vector<TrainedTensor> same, moved = shifted(m.graph);
  for (const TrainedTensor& t : moved) {
    const HostTensor now = value(m.graph, m.graph.value(t.source_value).name).data.cast(DType::f32);
    std::vector<float> copy(now.as<float>(), now.as<float>() + now.numel());
    same.push_back({t.source_value, HostTensor::of<float>(now.dims(), copy)});
  }
  REQUIRE(same.size() == 4);
  export_model(*m.doc, m.graph, moved, {}, f / "before.onnx");

  const int64_t limit = activation_limit(m.graph, {{"x", {200000, 300}}});
  release_parameters(m);
  CHECK(activation_limit(m.graph, {{"x", {200000, 300}}}) == limit);
  for (const char* name : {"wide", "half"}) {
    CHECK_FALSE(value(m.graph, name).data);
    CHECK(value(m.graph, name).data.rank() == 2);
  }
  // These tensors are too small to be released from memory.
  for (const char* name : {"back", "small"}) CHECK(value(m.graph, name).data);
  CHECK(value(m.graph, "half").data.dtype() == DType::f16);
  export_model(*m.doc, m.graph, same, {}, f / "same.onnx");
  CHECK(bytes_of(f / "same.onnx") == bytes_of(path));
  export_model(*m.doc, m.graph, moved, {}, f / "after.onnx");
  CHECK(bytes_of(f / "after.onnx") == bytes_of(f / "before.onnx"));
  CHECK_THROWS_WITH(export_model(*m.doc, m.graph, {}, {}, f / "none.onnx"),
                    Catch::Matchers::ContainsSubstring("released"));
}

TEST_CASE("only precisions that exist are written", "[export]") {
  const TempDir f;
  const Imported m = import_model(kData + "norms_ts18.onnx");
  ExportOptions o;
  o.precision = "fp8";
  expect_error(
      "E_PRECISION", "'fp8' is not file", [&] { export_model(*m.doc, m.graph, {}, o, f / "out.onnx"); }, Exit::usage);
}

TEST_CASE("a file above the limit moves its tensors outside", "[export]") {
  const TempDir f;
  const Imported m = import_model(kData + "norms_ts18.onnx");
  ExportOptions o;
  o.inline_limit = 5000;
  const ExportReport r = export_model(*m.doc, m.graph, {}, o, f / "out.onnx");
  CHECK(r.notes.size() == 1);
  CHECK(std::filesystem::file_size(f / "out.onnx") < std::filesystem::file_size(kData + "norms_ts18.onnx"));
  const Imported again = import_model(f / "out.onnx");
  for (size_t i = 0; i < m.graph.values.size(); ++i) {
    const HostTensor &a = m.graph.values[i].data, &b = again.graph.values[i].data;
    CHECK((!a || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0));
  }
}

TEST_CASE("exporting over the imported file works, a missing folder is made, a file in its place is a storage error",
          "[export]") {
  const TempDir f;
  std::filesystem::copy(kData + "store_external_hand17", f.path / "m");
  std::filesystem::permissions(f.path / "m", std::filesystem::perms::owner_all);
  const Imported m = import_model(f / "m/model.onnx");
  export_model(*m.doc, m.graph, shifted(m.graph), {}, f / "m/model.onnx");
  CHECK(import_model(f / "m/model.onnx").graph.nodes.size() == m.graph.nodes.size());
  export_model(*m.doc, m.graph, {}, {}, f / "none/out.onnx");
  CHECK(std::filesystem::exists(f.path / "none/out.onnx"));
  try {
    export_model(*m.doc, m.graph, {}, {}, f / "none/out.onnx/out.onnx");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::storage);
  }
}

TEST_CASE("a head that training appended is exported, its Dropout is not", "[export]") {
  const TempDir f;
  Imported m = import_text(f, kMlp);
  SourceGraph& g = m.graph;
  const auto add = [&](SourceKind kind, const std::string& name, HostTensor data) {
    SourceValue v;
    v.name = g.fresh_name(name);
    v.kind = kind;
    v.trainable = kind == SourceKind::parameter;
    v.dtype_known = true;
    v.data = std::move(data);
    return g.add_value(std::move(v));
  };
  const int weight = add(SourceKind::parameter, "classifier.weight", HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const int bias = add(SourceKind::parameter, "classifier.bias", HostTensor::of<float>({3}, {0, 0, 0}));
  const int ratio = add(SourceKind::constant, "dropout.ratio", HostTensor::scalar<float>(0.1f));
  const int dropped = add(SourceKind::temp, "dropped", {});
  const int logits = add(SourceKind::temp, "logits", {});
  g.values[static_cast<size_t>(logits)].rank_known = true;
  g.values[static_cast<size_t>(logits)].dims = {{-1, "N"}, {3, ""}};
  g.add_node({"classifier.dropout", "Dropout", "", 17, {}, {g.find("y"), ratio}, {dropped}, Place::training});
  g.add_node(
      {"classifier", "Gemm", "", 17, Attrs{{"transB", int64_t{0}}, {"alpha", 1.0}}, {dropped, weight, bias}, {logits}});
  g.outputs.push_back(logits);
  ExportOptions o;
  o.metadata = {{"labels", "[\"a\",\"b\",\"c\"]"}, {"who", "them"}};
  export_model(*m.doc, g, {{bias, HostTensor::of<float>({3}, {7, 8, 9})}}, o, f / "out.onnx");
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(bytes_of(f / "out.onnx")));
  onnx::checker::check_model(p, true);
  CHECK(p.metadata_props_size() == 2);
  CHECK(p.metadata_props(0).value() == "them");
  CHECK(p.metadata_props(1).key() == "labels");
  REQUIRE(p.graph().output_size() == 2);
  CHECK(p.graph().output(1).name() == "logits");
  CHECK(p.graph().output(1).type().tensor_type().shape().dim(0).dim_param() == "N");
  CHECK(p.graph().output(1).type().tensor_type().shape().dim(1).dim_value() == 3);
  REQUIRE(p.graph().node_size() == 6);
  CHECK(p.graph().node(5).op_type() == "Gemm");
  CHECK(p.graph().node(5).input(0) == "y");
  CHECK(p.graph().initializer_size() == 5 + 2);  // the initializer dropout.ratio is not exported
  const SourceGraph again = import_model(f / "out.onnx").graph;
  CHECK(value(again, "classifier.bias").data.to_doubles() == std::vector<double>{7, 8, 9});
  CHECK(value(again, "classifier.weight").data.to_doubles()[5] == 6);
  CHECK(value(again, "w0").data.to_doubles()[11] == 12);
}
