// Tests which tensors are trained, how they are named, and which are tied. trained.json lists the tensors that PyTorch
// trained.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "importer/discover/describe.h"
#include "importer/write/export.h"
#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

static std::set<std::string> trained(const SourceGraph& g) {
  std::set<std::string> names;
  for (const SourceValue& v : g.values) {
    if (v.kind == SourceKind::parameter && v.trainable) names.insert(v.name);
  }
  return names;
}

TEST_CASE("trainable tensors of small exported models", "[discover]") {
  nlohmann::json truth;
  std::ifstream(kData + "trained.json") >> truth;
  REQUIRE(truth.size() > 10);
  for (const auto& [name, want] : truth.items()) {
    INFO(name);
    const Imported m = import_model(kData + name + ".onnx");
    CHECK(trained(m.graph) == want.get<std::set<std::string>>());
    for (const SourceValue& v : m.graph.values) {
      if (v.kind == SourceKind::constant || v.kind == SourceKind::parameter) CHECK(!v.reason.empty());
    }
  }
}

TEST_CASE("what is no weight, and why", "[discover]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2,4] x, int64[N,2] p) => (float[N,2,4] y)
    <float[4] mean = {1,2,3,4}, float[4] std = {1,1,2,3}, float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
     float eps = {0.00001}, float[1] gain = {2}, float[1] last = {3}, float[2,2] tril = {0,-10000,0,0},
     float[1,2] freq = {1,0.01}, float[4] dead = {1,2,3,4}, float[4,1] head = {1,2,3,4}, float[4] scale = {1,1,1,1},
     float[4] bias = {0,0,0,0}, float[4] m = {0,0,0,0}, float[4] v = {1,1,1,1}, float[2] one = {1,1}, float[2] zero = {0,0},
     int64[3] perm = {0,2,1}, int64[1] axis = {2}>
    { s = Sub (x, mean)  d = Div (s, std)  h = MatMul (d, w)  e = Add (h, eps)  k = Mul (e, gain)
      t = Transpose <perm = [0,2,1]> (k)  tb = BatchNormalization (t, scale, bias, m, v)
      ti = InstanceNormalization (tb, bias, scale)  q = MatMul (ti, tril)  q2 = Add (q, tril)
      r = Transpose <perm = [0,2,1]> (q2)  g1 = InstanceNormalization (r, one, zero)
      pf = Cast <to = 1> (p)  ang = Mul (pf, freq)  c = Cos (ang)  cu = Unsqueeze (c, axis)
      gone = Mul (x, dead)
      o = MatMul (g1, head)  ob = Add (o, last)  z = Mul (cu, ob)  y = Add (z, g1) })");
  const auto why = [&](const std::string& name) { return value(m.graph, name).reason; };
  CHECK(trained(m.graph) == std::set<std::string>{"w", "scale", "bias", "tril", "head", "last"});
  CHECK(why("mean").find("standardizes") != std::string::npos);
  CHECK(why("std").find("standardizes") != std::string::npos);
  CHECK(why("eps").find("one element") != std::string::npos);
  CHECK(why("gain").find("one element") != std::string::npos);
  CHECK(why("freq").find("rotary") != std::string::npos);
  CHECK(why("dead").find("no graph output") != std::string::npos);
  CHECK(why("m").find("running mean") != std::string::npos);
  CHECK(why("v").find("running variance") != std::string::npos);
  CHECK(why("one").find("dummy") != std::string::npos);
  CHECK(why("zero").find("dummy") != std::string::npos);
  CHECK(why("axis").find("int64") != std::string::npos);
}

TEST_CASE("masks are no weights", "[discover]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2,4] x) => (float[N,2,2] y)
    <float[2,2] tril = {0,-10000,0,0}, float[2,2] table = {0,-1,0.5,0}, float[4,2] w = {1,2,3,4,5,6,7,8}>
    { h = MatMul (x, w)  a = Add (h, tril)  y = Add (a, table) })");
  CHECK(trained(m.graph) == std::set<std::string>{"table", "w"});
}

static const char* kTied = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (int64[N] ids) => (float[N,3] y)
  <float[3,2] table = {1,2,3,4,5,6}, float[2,3] head = {1,3,5,2,4,6}, float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4},
   float[2,2] zero1 = {0,0,0,0}, float[2,2] zero2 = {0,0,0,0}, float[2] v1 = {1,2}, float[2] v2 = {1,2}>
  { e = Gather (table, ids)  h = MatMul (e, a)  i = Add (h, v1)  j = MatMul (i, b)  k = Add (j, v2)
    l = MatMul (k, zero1)  m = MatMul (l, zero2)  y = MatMul (m, head) })";

TEST_CASE("equal matrices are one weight, constant-valued ones and vectors are not", "[discover]") {
  const TempDir f;
  const SourceGraph g = import_text(f, kTied).graph;
  CHECK(value(g, "head").tied_to == g.find("table"));
  CHECK(value(g, "head").tied_transposed);
  CHECK(value(g, "b").tied_to == g.find("a"));
  CHECK_FALSE(value(g, "b").tied_transposed);
  for (const char* name : {"table", "a", "zero1", "zero2", "v1", "v2"}) CHECK(value(g, name).tied_to == -1);
  const ParameterCount c = count_parameters(g);
  CHECK(c.tensors == 6);
  CHECK(c.elements == 6 + 4 + 4 + 4 + 2 + 2);
  ImportOptions none;
  none.tie_weights_auto = false;
  CHECK(value(import_text(f, kTied, none).graph, "head").tied_to == -1);
}

TEST_CASE("globs", "[discover]") {
  const TempDir f;
  ImportOptions o;
  o.freeze = {"*"};
  o.trainable = {"v?", "zero1"};
  CHECK(trained(import_text(f, kTied, o).graph) == std::set<std::string>{"v1", "v2", "zero1"});
  o = {};
  o.freeze = {"head"};  // head is a tied copy, so its master is frozen, too
  const SourceGraph g = import_text(f, kTied, o).graph;
  CHECK_FALSE(value(g, "table").trainable);
  CHECK(value(g, "table").kind == SourceKind::parameter);
  CHECK(value(g, "head").reason.find("frozen by 'head'") == 0);
  o.freeze = {"tabel"};
  const std::string path = save(f, parse(kTied));
  expect(import_error(path, o), Exit::usage, "E_GLOB", "did you mean 'table'");
  o = {};
  o.trainable = {"ids"};
  expect(import_error(path, o), Exit::usage, "E_TRAINABLE", "graph input");
}

TEST_CASE("an exact name makes a constant trainable, a wildcard spares one-element constants", "[discover]") {
  const TempDir f;
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1,2,3,4}, float[1] gain = {2}, float[2] div = {1,2}> { h = MatMul (x, w)  s = Mul (h, gain)  y = Div (s, div) })";
  ImportOptions o;
  CHECK(trained(import_text(f, text).graph) == std::set<std::string>{"w"});
  o.trainable = {"*"};
  CHECK(trained(import_text(f, text, o).graph) == std::set<std::string>{"w", "div"});
  o.trainable = {"gain"};
  CHECK(trained(import_text(f, text, o).graph) == std::set<std::string>{"w", "gain"});
}

TEST_CASE("a wildcard spares constants through which no gradient passes", "[discover]") {
  const TempDir f;
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N,1,2,2] x) => (float[N,2,K,L] y)
    <float[2,1,1,1] w = {2,3}, float[2] b = {1,4}, float[2] ones = {1,1}, float[2] twos = {2,2}, float[2,2] table = {1,5,3,2}>
    { h = Conv (x, w, b)  s = Concat <axis=0> (ones, twos)  r = Resize (h, , s)  y = Mul (r, table) })";
  ImportOptions o;
  o.trainable = {"*"};
  CHECK(trained(import_text(f, text, o).graph) == std::set<std::string>{"w", "b", "table"});
  o.trainable = {"twos"};
  CHECK(trained(import_text(f, text, o).graph).count("twos") == 1);
}

TEST_CASE("lost names get an alias from the node's scope", "[discover]") {
  const TempDir f;
  onnx::ModelProto m = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)
    <float[2,2] val_1 = {1,2,3,4}, float[2,2] val_2 = {5,2,3,4}, float[2] bert_dense_bias = {1,2}>
    { h = MatMul (x, val_1)  b = Add (h, bert_dense_bias)  y = MatMul (b, val_2) })");
  auto& g = *m.mutable_graph();
  g.mutable_initializer(0)->set_name("onnx::MatMul_470");
  g.mutable_initializer(2)->set_name("bert.layer.0.query.bias");
  g.mutable_node(0)->set_input(1, "onnx::MatMul_470");
  g.mutable_node(1)->set_input(1, "bert.layer.0.query.bias");
  g.mutable_node(0)->set_name("/model/bert/layer.0/query/MatMul");  // "model" is a wrapper that weight names lack
  auto& p = *g.mutable_node(2)->add_metadata_props();
  p.set_key("pkg.torch.onnx.name_scopes");
  p.set_value("['', 'bert', 'bert.head', 'linear']");
  const Imported out = import_model(save(f, m));
  CHECK(value(out.graph, "onnx::MatMul_470").alias == "bert.layer.0.query.weight");
  CHECK(value(out.graph, "val_2").alias == "bert.head.weight");
  CHECK(value(out.graph, "bert.layer.0.query.bias").alias.empty());
  ImportOptions o;
  o.freeze = {"bert.layer.0.*"};
  CHECK(trained(import_model(save(f, m), o).graph) == std::set<std::string>{"val_2"});
  const std::string table = describe_tensors(out.graph);
  CHECK(table.find("bert.layer.0.query.weight = onnx::MatMul_470") != std::string::npos);
  CHECK(table.find("3 trained tensors with 10 elements") != std::string::npos);
  const auto row = nlohmann::json::parse(
      describe_parameters_json(out.graph).substr(0, describe_parameters_json(out.graph).find('\n')));
  CHECK(row["alias"] == "bert.layer.0.query.weight");
  CHECK(row["dims"] == nlohmann::json::array({2, 2}));
}

TEST_CASE("names that exporters generate get an alias, names of modules do not", "[discover]") {
  const TempDir f;
  onnx::ModelProto m = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,2,3,4}>
    { y = MatMul (x, w) })");
  m.mutable_graph()->mutable_node(0)->set_name("/encoder/query/MatMul");
  const auto alias_of = [&](const std::string& name) {
    m.mutable_graph()->mutable_initializer(0)->set_name(name);
    m.mutable_graph()->mutable_node(0)->set_input(1, name);
    return value(import_model(save(f, m)).graph, name).alias;
  };
  for (const char* name : {"461", "onnx::Gemm_12", "onnx::w", "val_72", "/layer/Constant_output_0", "Constant_7"}) {
    INFO(name);
    CHECK(alias_of(name) == "encoder.query.weight");
  }
  for (const char* name : {"encoder.w_0", "encoder/w_1", "weight", "w2"}) {
    INFO(name);
    CHECK(alias_of(name).empty());
  }
}

TEST_CASE("the JSON row of a tensor states what the graph has", "[discover]") {
  const TempDir f;
  ImportOptions options;
  options.freeze = {"w"};
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1,2,3,4}, float[2,2] v = {5,6,7,8}, float[2,2] copy = {5,7,6,8}, float16[2] bias = {15360,14336},
     float[1] gain = {2}>
    { a = MatMul (x, w) b = MatMul (a, v) c = MatMul (b, copy) d = Mul (c, gain)
      k = Cast <to = 1> (bias) y = Add (d, k) })",
                                 options);
  std::map<std::string, nlohmann::json> rows;
  std::istringstream lines(describe_tensors_json(m.graph, m.verdicts));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    rows[row.at("name")] = row;
  }
  REQUIRE(rows.size() == 5);
  const auto is = [&](const char* name, bool parameter, bool trainable, const Dims& dims, const std::string& dtype) {
    INFO(name);
    const nlohmann::json& row = rows.at(name);
    CHECK(row.at("parameter") == parameter);
    CHECK(row.at("trainable") == trainable);
    CHECK(row.at("dims").get<Dims>() == dims);
    CHECK(row.at("count") == numel(dims));
    CHECK(row.at("dtype") == dtype);
    CHECK(row.at("reason") == value(m.graph, name).reason);
    CHECK(row.at("unsure") == false);
  };
  is("w", true, false, {2, 2}, "float32");
  is("v", true, true, {2, 2}, "float32");
  is("copy", true, true, {2, 2}, "float32");
  is("bias", true, true, {2}, "float16");
  is("gain", false, false, {1}, "float32");
  CHECK(rows.at("copy").at("tied_to") == "v");
  CHECK(rows.at("copy").at("tied_transposed") == true);
  CHECK(rows.at("v").at("tied_to").is_null());
  CHECK(rows.at("v").at("tied_transposed") == false);
  const ParameterCount count = count_parameters(m.graph);
  CHECK(count.tensors == 2);
  CHECK(count.elements == 6);
  CHECK(count.frozen_tensors == 1);
  CHECK(count.frozen_elements == 4);
  std::istringstream parameters(describe_parameters_json(m.graph, m.verdicts));
  size_t listed = 0;
  for (std::string line; std::getline(parameters, line); ++listed)
    CHECK(nlohmann::json::parse(line) == rows.at(nlohmann::json::parse(line).at("name")));
  CHECK(listed == 4);
}

TEST_CASE("a tensor's stated dims and type are those of its values", "[discover]") {
  size_t stated = 0, masters = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kData)) {
    if (file.path().extension() != ".onnx") continue;
    for (const bool quantized : {false, true}) {
      INFO(file.path());
      ImportOptions options;
      options.train_quantized = quantized;
      std::optional<Imported> m;
      try {
        m = import_model(file.path().string(), options);
      } catch (const Error&) {
        continue;  // files that other tests expect to be refused
      }
      for (const SourceValue& v : m->graph.values) {
        if (!v.data) continue;
        INFO(v.name);
        if (v.dtype_known) CHECK(v.dtype == v.data.dtype());
        if (!v.rank_known) continue;
        ++stated;
        masters += v.name.find("/master") != std::string::npos;
        Dims dims;
        for (const Dim& d : v.dims) dims.push_back(d.symbol.empty() ? d.value : -1);
        CHECK(dims == v.data.dims());
      }
    }
  }
  CHECK(stated > 100);
  CHECK(masters > 2);
}

TEST_CASE("weights that ConstantOfShape makes are trained, other fills stay nodes", "[discover]") {
  const TempDir f;
  const char* text = R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,3] y)
    <int64[2] shape = {4,3}, int64[2] huge = {100000,100000}, int64[1] row = {3}>
    { w = ConstantOfShape <value: tensor = float[1] {0.02}> (shape)  b = ConstantOfShape (row)  h = MatMul (x, w)
      y = Add (h, b)  a = ConstantOfShape (huge)  unused = MatMul (y, a) })";
  const Imported m = import_text(f, text);
  CHECK(trained(m.graph) == std::set<std::string>{"w"});
  CHECK(value(m.graph, "w").data.dims() == Dims{4, 3});
  CHECK(value(m.graph, "w").data.as<float>()[11] == 0.02f);
  CHECK(value(m.graph, "b").kind == SourceKind::temp);
  CHECK(value(m.graph, "a").kind == SourceKind::temp);
  export_model(*m.doc, m.graph, {}, {}, f / "same.onnx");
  CHECK(bytes_of(f / "same.onnx") == bytes_of(f / "model.onnx"));
  export_model(*m.doc, m.graph, {{m.graph.find("w"), HostTensor::zeros(DType::f32, {4, 3})}}, {}, f / "out.onnx");
  CHECK(value(import_model(f / "out.onnx").graph, "w").data.as<float>()[11] == 0);
}
