// Tests which tensors are weights in unprepared files, by one small graph per kind with the names that PyTorch's
// exporters write. In the texts "__" stands for "." in names, and "onnxXX" for "onnx::".
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "importer/discover/describe.h"
#include "importer/discover/evidence.h"
#include "importer/write/export.h"
#include "models.h"
#include "run.h"
#include "tests/importer/values.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string torch_name(std::string s) {
  for (size_t at; (at = s.find("__")) != std::string::npos;) s.replace(at, 2, ".");
  if (s.rfind("onnxXX", 0) == 0) s.replace(0, 6, "onnx::");
  return s;
}

void rename(onnx::GraphProto& g) {
  for (auto& t : *g.mutable_initializer()) t.set_name(torch_name(t.name()));
  for (auto& v : *g.mutable_input()) v.set_name(torch_name(v.name()));
  for (auto& v : *g.mutable_output()) v.set_name(torch_name(v.name()));
  for (auto& n : *g.mutable_node()) {
    for (auto& i : *n.mutable_input()) i = torch_name(i);
    for (auto& o : *n.mutable_output()) o = torch_name(o);
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) rename(*a.mutable_g());
    }
  }
}

std::string numbers(int64_t n, double (*f)(int64_t)) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(cat(f(i)));
  return join(all, ",");
}

// Returns a model with inputs x [N,4,8] and ids [N,4], and with a named linear layer and a named norm around the tested
// nodes.
onnx::ModelProto torch_model(const std::string& tensors, const std::string& nodes, const char* producer = "pytorch") {
  onnx::ModelProto m = parse(cat(R"(<ir_version: 8, opset_import: ["" : 18], producer_name: ")", producer, R"(">
      g (float[N,4,8] x, int64[N,4] ids, bool[N,4,1] some) => (float[N,M,K] y)
      <float[8,8] onnxXXMatMul_7 = {)",
                                 numbers(64, [](int64_t i) { return learned(i + 500); }), R"(},
       float[8] m__l__bias = {0,0,0,0,0,0,0,0}, float[8] m__n__weight = {1,1,1,1,1,1,1,1})",
                                 tensors.empty() ? "" : ", ", tensors, R"(>
      { a = MatMul (x, onnxXXMatMul_7)  b = Add (m__l__bias, a)  h = LayerNormalization <axis = -1> (b, m__n__weight) )",
                                 nodes, " }"));
  rename(*m.mutable_graph());
  return m;
}

void note(onnx::GraphProto& g, const std::string& tensor, const std::string& key, const std::string& text) {
  auto& info = *g.add_value_info();
  info.set_name(tensor);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  auto& p = *info.add_metadata_props();
  p.set_key(key);
  p.set_value(text);
}

bool trains(const Imported& m, const std::string& name) { return value(m.graph, name).trainable; }

const Verdict& verdict(const Imported& m, const std::string& name) {
  return m.verdicts.at(static_cast<size_t>(m.graph.find(name)));
}

struct Case {
  const char* what;
  std::string tensors, nodes, name;
  bool weight;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      // parameters at inputs that are rarely weights
      {"a logit scale", "float m__logit_scale = {2.6}", "s = Exp (m__logit_scale)  y = Mul (h, s)", "m.logit_scale",
       true},
      {"a logit scale of the model itself", "float logit_scale = {2.6}", "s = Exp (logit_scale)  y = Mul (h, s)",
       "logit_scale", true},
      {"a logit bias that the exporter rearranged", "float[1] onnxXXAdd_891 = {0.1}", "y = Add (h, onnxXXAdd_891)",
       "onnx::Add_891", true},
      {"a clamped scale per head",
       "float[8,1] m__attn__logit_scale = {2.3,2.2,2.1,2.4,2.5,2.6,2.7,2.8}, float top = {4.6}",
       "c = Clip (m__attn__logit_scale, , top)  e = Exp (c)  q = Transpose <perm = [1,0]> (e)  y = Mul (h, q)",
       "m.attn.logit_scale", true},
      {"A_log", "float[8] m__mixer__A_log = {0,0.69,1.09,1.38,1.6,1.79,1.94,2.07}",
       "e = Exp (m__mixer__A_log)  k = Neg (e)  y = Mul (h, k)", "m.mixer.A_log", true},
      {"a decay in steps", "float[8] m__time_decay = {-5,-4,-3,-2,-1,0,1,2}", "e = Exp (m__time_decay)  y = Mul (h, e)",
       "m.time_decay", true},
      {"a mask token", "float[1,1,8] m__mask_token = {0,0,0,0,0,0,0,0}", "y = Where (some, m__mask_token, h)",
       "m.mask_token", true},
      {"a factor right after input and position",
       "float[8] gain = {1,1,1,1,1,1,1,1}, float[1,4,8] pos = {" + numbers(32, learned) + "}",
       "i = Add (x, pos)  j = Mul (i, gain)  y = Add (j, h)", "gain", true},
      {"a position right after the input", "float[1,4,8] pos = {" + numbers(32, learned) + "}",
       "i = Add (x, pos)  y = Add (i, h)", "pos", true},
      {"the table that Scatter writes into",
       "float[1,4,8] m__memory = {" + numbers(32, learned) + "}, int64[1,4,8] at = {" +
           numbers(32, [](int64_t i) { return static_cast<double>(i / 8); }) +
           "}, int64[3] one = {0,0,0}, int64[3] till = {1,4,8}, int64[3] axes = {0,1,2}",
       "h1 = Slice (h, one, till, axes)  s = ScatterElements <axis = 1> (m__memory, at, h1)  y = Add (s, h)",
       "m.memory", true},
      {"a convolution weight that is standardized",
       "float[1,2,4] onnxXXBatchNormalization_3 = {" + numbers(8, learned) +
           "}, float[2] one = {1,1}, float[2] none = {0,0}, int64[1] flat = {8}",
       "w = BatchNormalization (onnxXXBatchNormalization_3, one, none, none, one)  v = Reshape (w, flat)  y = Mul (h, "
       "v)",
       "onnx::BatchNormalization_3", true},
      {"the dummy scale of that norm",
       "float[1,2,4] onnxXXBatchNormalization_3 = {" + numbers(8, learned) +
           "}, float[2] one = {1,1}, float[2] none = {0,0}, int64[1] flat = {8}",
       "w = BatchNormalization (onnxXXBatchNormalization_3, one, none, none, one)  v = Reshape (w, flat)  y = Mul (h, "
       "v)",
       "one", false},
      {"an attention bias", "float[4,4] m__attn__bias_table = {" + numbers(16, learned) + "}",
       "y = MatMul (m__attn__bias_table, h)", "m.attn.bias_table", true},
      // initial values that look like constants
      {"a fresh norm", "", "y = Identity (h)", "m.n.weight", true},
      {"a fresh bias", "", "y = Identity (h)", "m.l.bias", true},
      {"a weight under a made-up name", "", "y = Identity (h)", "onnx::MatMul_7", true},
      // constants at inputs that usually are weights
      {"a cosine table",
       "float[1,8,8] unsqueeze_14 = {" + numbers(64, sinusoid) +
           "}, int64[1] s0 = {0}, int64[1] s1 = {4}, int64[1] ax = {1}",
       "t = Slice (unsqueeze_14, s0, s1, ax)  y = Mul (h, t)", "unsqueeze_14", false},
      {"sinusoid positions in a buffer",
       "float[1,8,8] m__pos__table = {" + numbers(64, sinusoid) +
           "}, int64[1] s0 = {0}, int64[1] s1 = {4}, int64[1] ax = {1}",
       "t = Slice (m__pos__table, s0, s1, ax)  y = Add (h, t)", "m.pos.table", false},
      {"a table of positions of another method",
       "float[8,8] m__embed_positions__weights = {" + numbers(64, learned) + "}",
       "t = Gather (m__embed_positions__weights, ids)  y = Add (h, t)", "m.embed_positions.weights", false},
      {"slopes", "float[8] m__slopes = {0.5,0.25,0.125,0.0625,0.03125,0.015625,0.0078125,0.00390625}",
       "y = Mul (h, m__slopes)", "m.slopes", false},
      {"a window mask",
       "float[4,8] m__window = "
       "{0,-100,0,0,0,0,-100,0,0,-100,0,0,0,0,-100,0,0,-100,0,0,0,0,-100,0,0,-100,0,0,0,0,-100,0}",
       "y = Add (h, m__window)", "m.window", false},
      {"a causal table with minus infinity",
       "float[4,8] m__table = "
       "{0,-3.4e38,0.1,0.2,0.5,0.6,-3.4e38,0,0,0.3,-3.4e38,0,0,0,0.7,0,0,0.9,0,0,0,0,0.8,0,0,0.4,0,0,0,0,0.55,0}",
       "y = Add (h, m__table)", "m.table", false},
      {"a grid of coordinates in a Constant node", "",
       "k = Constant <value = float[4,2] {0,0,0,1,1,0,1,1}> ()  w = MatMul (h, wide)  y = MatMul (k, w)", "k", false},
      {"the zero bias of a norm without one", "",
       "z = Constant <value = float[8] {0,0,0,0,0,0,0,0}> ()  y = LayerNormalization <axis = -1> (h, m__n__weight, z)",
       "z", false},
      {"a bias of logits that no one trains", "float[1,8] m__final_logits_bias = {0,0,0,0,0,0,0,0}",
       "p = MatMul (h, onnxXXMatMul_7)  y = Add (p, m__final_logits_bias)", "m.final_logits_bias", false},
      {"the same, rearranged by the exporter", "float[1,8] onnxXXAdd_539 = {0,0,0,0,0,0,0,0}",
       "p = MatMul (h, onnxXXMatMul_7)  y = Add (p, onnxXXAdd_539)", "onnx::Add_539", false},
      {"frequencies", "float[4,8] m__enc__gaussian = {" + numbers(32, learned) + "}, int64[1] ax = {2}",
       "f = Cast <to = 1> (ids)  u = Unsqueeze (f, ax)  e = Expand (u, ex)  p = MatMul (e, m__enc__gaussian)  c = Cos "
       "(p)  y = Add (c, h)",
       "m.enc.gaussian", false},
      {"a constant of a formula", "", "k = Constant <value = float {0.044715}> ()  y = Mul (h, k)", "k", false},
      {"a bias of a choice that passes no gradient",
       "float[8] m__gate__correction = {0.1,0.2,0.15,0.3,0.7,0.5,0.9,0.4}, int64[1] two = {2}",
       "s = Add (h, m__gate__correction)  best, at = TopK (s, two)  y = GatherElements <axis = 2> (h, at)",
       "m.gate.correction", false},
      {"what only a comparison reads", "float[8] m__threshold = {0.1,0.2,0.15,0.3,0.7,0.5,0.9,0.4}",
       "c = Greater (h, m__threshold)  y = Where (c, h, x)", "m.threshold", false},
  };
  return all;
}

}  // namespace

TEST_CASE("weights and constants of exported files are told apart", "[weights]") {
  const TempDir f;
  for (const Case& c : cases()) {
    INFO(c.what);
    std::string tensors = c.tensors;
    if (c.nodes.find("wide") != std::string::npos)  // `wide`: a tensor that multiplies h
      tensors = "float[8,8] wide = {" + numbers(64, learned) + "}";
    if (c.nodes.find("ex)") != std::string::npos) tensors += ", int64[3] ex = {1,4,4}";
    const Imported m = import_model(save(f, torch_model(tensors, c.nodes)));
    INFO(value(m.graph, c.name).reason << "; " << verdict(m, c.name).text());
    CHECK(trains(m, c.name) == c.weight);
    CHECK((value(m.graph, c.name).kind == SourceKind::parameter) == c.weight);
    CHECK_FALSE(verdict(m, c.name).evidence.empty());
    CHECK(verdict(m, c.name).weight() == c.weight);
    for (const char* always : {"m.n.weight", "onnx::MatMul_7"}) CHECK(trains(m, always));
  }
}

TEST_CASE("what PyTorch's exporter recorded decides", "[weights]") {
  const TempDir f;
  const std::string tensors =
      "float[8] m__a = {0.3,0.1,0.2,0.5,0.7,0.1,0.4,0.9}, float[8] m__b = {0.4,0.1,0.2,0.5,0.7,0.1,0.4,0.9}, "
      "float[8] exp = {0.5,0.1,0.2,0.5,0.7,0.1,0.4,0.9}, float[8] val_3 = {0.6,0.1,0.2,0.5,0.7,0.1,0.4,0.9}";
  onnx::ModelProto m =
      torch_model(tensors, "c = Add (h, m__a)  d = Mul (c, m__b)  e = Mul (d, exp)  y = Add (e, val_3)");
  auto& g = *m.mutable_graph();
  auto& p = *g.add_metadata_props();
  p.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  p.set_value(
      "\n# inputs\np_m_a: PARAMETER target='m.a'\nb_m_b: BUFFER target='m.b' persistent=True\np_m_s: PARAMETER "
      "target='m.log_scale'\n"
      "p_l: PARAMETER target='m.l.bias'\np_n: PARAMETER target='m.n.weight'\np_w: PARAMETER target='m.l.weight'\n# "
      "outputs\ny: USER_OUTPUT\n");
  const char* folded = "pkg.onnxscript.optimizer.folded_from";
  note(g, "exp", folded, "['m.log_scale']");
  note(g, "val_3", folded, "['arange', 'val_1', 'm.b']");
  note(g, "onnx::MatMul_7", folded, "['m.l.weight']");
  const Imported out = import_model(save(f, m));
  CHECK(trains(out, "m.a"));
  CHECK_FALSE(trains(out, "m.b"));
  CHECK(trains(out, "exp"));
  CHECK_FALSE(trains(out, "val_3"));
  CHECK(trains(out, "onnx::MatMul_7"));
  CHECK(value(out.graph, "m.b").reason.find("lists it as a buffer") != std::string::npos);
  CHECK(verdict(out, "exp").text().find("from parameter 'm.log_scale'") != std::string::npos);
}

TEST_CASE("without names position decides, masks and position tables apart", "[weights]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[N,8] x) => (float[N,8] y)
    <float[8] scale = {1,1,1,1,1,1,1,1}, float[8] shift = {0,0,0,0,0,0,0,0}, float half = {0.5}, float[8] d = {1,2,3,4,5,6,7,9}>
    { w = Constant <value = float[8,8] {)" +
                                        numbers(64, learned) + R"(}> ()
      t = Constant <value = float[8,8] {)" +
                                        numbers(64, sinusoid) + R"(}> ()
      a = MatMul (x, w)  b = Mul (a, scale)  c = Add (b, shift)  e = Mul (c, half)  k = Add (e, t)  y = Div (k, d) })");
  CHECK(trains(m, "w"));
  CHECK(trains(m, "scale"));
  CHECK(trains(m, "shift"));
  CHECK_FALSE(trains(m, "half"));
  CHECK_FALSE(trains(m, "t"));
  CHECK_FALSE(trains(m, "d"));
}

TEST_CASE("weights before an ArgMax are weights", "[weights]") {
  const TempDir f;
  const Imported m = import_model(save(f, torch_model("", "t = ArgMax <axis = 2> (h)  y = Cast <to = 1> (t)")));
  for (const char* name : {"onnx::MatMul_7", "m.l.bias", "m.n.weight"}) CHECK(trains(m, name));
}

TEST_CASE("flags for the tensors in doubt are right as they stand", "[weights]") {
  const TempDir f;
  // A factor with a name is trained, but the decision is marked unsure. A series that the exporter rearranged is not
  // trained, and this decision is marked unsure too.
  const onnx::ModelProto file =
      torch_model("float m__strength = {0.3712}, float[8] onnxXXMul_9 = {1,2,4,8,16,32,64,128}",
                  "c = Mul (h, m__strength)  y = Mul (c, onnxXXMul_9)");
  const std::string path = save(f, file);
  const Imported m = import_model(path);
  size_t left = 0;
  const std::string flags = flags_for_unsure(m.graph, m.verdicts, 10, left);
  CHECK(left == 0);
  CHECK(flags.find("`freeze` m.strength") != std::string::npos);
  CHECK(flags.find("`trainable` onnx::Mul_9") != std::string::npos);
  ImportOptions o;
  o.freeze = {"m.strength"};
  o.trainable = {"onnx::Mul_9"};
  const Imported turned = import_model(path, o);
  CHECK_FALSE(trains(turned, "m.strength"));
  CHECK(trains(turned, "onnx::Mul_9"));
  CHECK(flags_for_unsure(turned.graph, turned.verdicts, 10, left).empty());
  CHECK(flags_for_unsure(m.graph, m.verdicts, 1, left).find(" --") == std::string::npos);
  CHECK(left == 1);
  // The table lists the unsure tensors first, and every floating tensor is in the JSON lines.
  const std::string text = describe_tensors(m.graph, m.verdicts);
  CHECK(text.find("m.strength") < text.find("m.n.weight"));
  CHECK(text.find("onnx::Mul_9") < text.find("m.n.weight"));
  std::istringstream lines(describe_tensors_json(m.graph, m.verdicts));
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    CHECK(row["confidence"].get<double>() >= 0.5);
    CHECK(row["evidence"].size() > 0);
    if (rows == 0) CHECK(row["unsure"].get<bool>());
  }
  CHECK(rows == 5);
}

TEST_CASE("weights inside branches and bodies train and are written back", "[weights]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 18], producer_name: "pytorch">
    g (float[N,2] x) => (float[N,2] y) <int64 two = {2}, int64 zero = {0}, bool yes = {1}>
    { s = Shape (x)  n = Gather (s, zero)  c = Equal (n, two)
      h = If (c) <then_branch = t () => (float[N,2] a) <float[2,2] w = {1,2,3,5}> { a = MatMul (x, w) },
                  else_branch = e () => (float[N,2] b) <float[2,2] w = {7,8,9,1}, float[2] v = {1,3}> { k = MatMul (x, w)  b = Add (k, v) }>
      y = Loop (two, yes, h) <body = b (int64 i, bool go, float[N,2] p) => (bool on, float[N,2] q) <float[2,2] u = {1,-1,2,-3}>
        { on = Identity (go)  r = MatMul (p, u)  q = Tanh (r) }> })");
  for (const char* name : {"w", "w_1", "v", "u"}) {
    INFO(name << ": " << value(m.graph, name).reason);
    CHECK(trains(m, name));
  }
  export_model(*m.doc, m.graph, {}, {}, f / "same.onnx");
  CHECK(bytes_of(f / "same.onnx") == bytes_of(f / "model.onnx"));
  std::vector<TrainedTensor> trained;
  for (const char* name : {"w_1", "u"}) {
    trained.push_back({m.graph.find(name), HostTensor::of<float>({2, 2}, {0.5f, 0.25f, 0.125f, 2.f})});
  }
  export_model(*m.doc, m.graph, trained, {}, f / "out.onnx");
  const Imported again = import_model(f / "out.onnx");
  for (const char* name : {"w_1", "u"}) CHECK(value(again.graph, name).data.as<float>()[3] == 2.f);
  CHECK(value(again.graph, "w").data.to_doubles() == value(m.graph, "w").data.to_doubles());
  CHECK(value(m.graph, "w").data.to_doubles() != value(m.graph, "w_1").data.to_doubles());
}

TEST_CASE("weights in unusual positions are written back", "[weights]") {
  const TempDir f;
  for (const Case& c : cases()) {
    if (!c.weight || c.tensors.empty()) continue;
    INFO(c.what);
    const Imported m = import_model(save(f, torch_model(c.tensors, c.nodes)));
    const HostTensor& old = value(m.graph, c.name).data;
    const HostTensor moved =
        HostTensor::of<float>(old.dims(), std::vector<float>(static_cast<size_t>(old.numel()), 0.375f));
    export_model(*m.doc, m.graph, {{m.graph.find(c.name), moved}}, {}, f / "out.onnx");
    const Imported again = import_model(f / "out.onnx", [&] {
      ImportOptions o;
      o.trainable = {c.name};
      return o;
    }());
    CHECK(value(again.graph, c.name).data.as<float>()[0] == 0.375f);
  }
}

TEST_CASE("a standardized weight trains through the statistics that the graph computes, its copies are one",
          "[weights]") {
  const TempDir f;
  const Numbers w = {0.3, -0.2, 0.5, 0.9, -0.7, 0.1};
  const char* text = R"(
    <ir_version: 8, opset_import: ["" : 18], producer_name: "pytorch">
    g (float[1,2,3] x) => (float[1,2,3] y)
    <float[1,2,3] onnxXXBatchNormalization_3 = {0.3,-0.2,0.5,0.9,-0.7,0.1}, float[1,3,2] onnxXXReduceMean_5 = {0.3,0.9,-0.2,-0.7,0.5,0.1},
     float[2] one = {1,1}, float[2] none = {0,0}, int64[1] rows = {1}, int64[2] both = {0,1}>
    { mean = ReduceMean <keepdims = 0> (onnxXXReduceMean_5, both)  off = Sub (onnxXXReduceMean_5, mean)  sq = Mul (off, off)
      var = ReduceMean <keepdims = 0> (sq, both)  s = BatchNormalization (onnxXXBatchNormalization_3, one, none, mean, var)
      p = Mul (s, x)  y = Mul (p, p) })";
  onnx::ModelProto m = parse(text);
  rename(*m.mutable_graph());
  const Imported split = import_model(save(f, m));
  const SourceValue& copy = value(split.graph, "onnx::ReduceMean_5");
  CHECK(copy.tied_to == split.graph.find("onnx::BatchNormalization_3"));
  CHECK(copy.tied_transposed);
  const Imported whole = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[1,2,3] x) => (float[1,2,3] y) <float[1,2,3] w = {0.3,-0.2,0.5,0.9,-0.7,0.1}, float eps = {0.00001}, int64[1] last = {2}>
    { mean = ReduceMean (w, last)  off = Sub (w, mean)  sq = Mul (off, off)  var = ReduceMean (sq, last)  ve = Add (var, eps)
      sd = Sqrt (ve)  s = Div (off, sd)  p = Mul (s, x)  y = Mul (p, p) })");
  ImportOptions o;
  o.trainable = {"w"};
  const Imported trained = import_model(f / "model.onnx", o);
  const std::map<std::string, HostTensor> feeds{{"x", floats({1, 2, 3}, {1, 2, -1, 0.5, 3, 1})}};
  const Run a = run(split.graph, feeds, true), b = run(trained.graph, feeds, true);
  const Numbers got = a.grads.at("onnx::BatchNormalization_3").to_doubles(), want = b.grads.at("w").to_doubles();
  REQUIRE(got.size() == w.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(std::fabs(got[i] - want[i]) < 1e-4 * (1 + std::fabs(want[i])));
  // Both tensors of the file get the weight, each in its layout.
  const HostTensor moved = HostTensor::of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 7});
  export_model(*split.doc, split.graph, {{split.graph.find("onnx::BatchNormalization_3"), moved}}, {}, f / "out.onnx");
  const Imported again = import_model(f / "out.onnx");
  CHECK(value(again.graph, "onnx::ReduceMean_5").data.to_doubles() == Numbers{1, 4, 2, 5, 3, 7});
}
