// Tests LoRA adapters against an implementation in PyTorch, and both forms of their export.
#include "importer/surgery/lora.h"

#include <onnx/defs/parser.h>

#include "../trainer/laid_out.h"
#include "surgery.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Trained {
  Imported model;
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> lines;
};

Trained adapted(bool keep, const Tensors& golden) {
  Trained t{import_model(kData + "bert.onnx"), {}, {}};
  LoraOptions o = parse_lora("r=4,alpha=8,targets=*query.weight,targets=*value.weight");
  o.keep = keep;
  LoraResult added = add_lora(t.model.graph, o);
  t.adapters = std::move(added.adapters);
  t.lines = std::move(added.lines);
  for (const LoraAdapter& a : t.adapters) {
    const std::string name = t.model.graph.shown(a.weight);
    const size_t at = name.find("bert.");
    REQUIRE(at != std::string::npos);
    t.model.graph.values[static_cast<size_t>(a.a)].data = golden.at(name.substr(at) + ".lora_A");
  }
  return t;
}

}  // namespace

TEST_CASE("adapters train as PyTorch's, ten steps, and export merged or kept") {
  const Tensors golden = tensors_of(kData + "lora.safetensors");
  const nlohmann::json ref = json_of("lora.json");
  const Tensors ids = pick(golden, {"input_ids", "attention_mask"}),
                batch = pick(golden, {"input_ids", "attention_mask", "label"});
  for (const char* method : {"sgd", "adamw"}) {
    for (const bool keep : {false, true}) {
      DYNAMIC_SECTION(method << (keep ? " kept" : " merged")) {
        Trained t = adapted(keep, golden);
        SourceGraph& g = t.model.graph;
        CHECK(t.adapters.size() == 4);
        LossSpec loss;
        loss.outputs = {"logits"};
        Session s(g, {});
        s.prepare(loss, batch);
        OptimizerConfig c;
        c.rule = update_rule_from_name(method);
        c.settings.momentum = c.rule == "sgd" ? 0.9 : 0;
        c.weight_decay = c.rule == "sgd" ? 0 : 0.01;
        LaidOut<float> optimizer(c, s.layout(), static_cast<const float*>(s.params()));
        const std::vector<TrainedTensor> before = all_parameters(s);
        std::vector<std::vector<double>> frozen;
        for (const TrainedTensor& p : before) frozen.push_back(p.value.to_doubles());
        for (int step = 0; step < 10; ++step) {
          INFO("step " << step);
          CHECK(step_loss(s, loss, batch) ==
                Catch::Approx(ref[method][static_cast<size_t>(step)].get<double>()).epsilon(1e-5));
          const auto* grads = static_cast<const float*>(s.grads());
          REQUIRE(optimizer.apply(static_cast<float*>(s.params()), grads, 1, optimizer.inspect(grads, 1),
                                  c.rule == "sgd" ? 0.2 : 0.05));
          s.set_params(s.host_params());
        }
        size_t moved = 0;
        const std::vector<TrainedTensor> after = all_parameters(s);
        for (size_t i = 0; i < after.size(); ++i) moved += after[i].value.to_doubles() != frozen[i];
        CHECK(moved == 8);  // A and B for each of four weights
        const HostTensor logits = s.forward({g.find("logits")}, ids).at("logits");
        CHECK(difference(logits, golden.at(std::string("logits_") + method)) < 1e-4);

        const TempDir f;
        export_model(*t.model.doc, g, keep ? after : merge_lora(g, t.adapters, after), {}, f / "out.onnx");
        const Imported again = import_model(f / "out.onnx");
        const Imported original = import_model(kData + "bert.onnx");
        CHECK(again.graph.nodes.size() == original.graph.nodes.size() + (keep ? 16 : 0));
        CHECK(again.graph.outputs.size() == 1);
        Session other(again.graph, {});
        CHECK(difference(other.forward({again.graph.find("logits")}, ids).at("logits"), logits) < 2e-6);
      }
    }
  }
}

TEST_CASE("an adapter that has not trained changes nothing") {
  Imported m = import_model(kData + "bert.onnx");
  const Imported plain = import_model(kData + "bert.onnx");
  const auto adapters = add_lora(m.graph, parse_lora("r=2,dropout=0.5")).adapters;
  CHECK(adapters.size() == 14);  // six linear maps per layer, pooler, classifier
  const Tensors ids = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask"});
  Session a(m.graph, {}), b(plain.graph, {});
  CHECK(difference(a.forward({m.graph.find("logits")}, ids).at("logits"),
                   b.forward({plain.graph.find("logits")}, ids).at("logits")) < 1e-6);
  for (const SourceValue& v : m.graph.values) {
    if (v.kind == SourceKind::parameter) CHECK(v.trainable == (v.reason == "LoRA"));
  }
}

TEST_CASE("A starts uniform in +-1/sqrt(in), by seed and name; B is zero") {
  const auto start = [](uint64_t seed) {
    Imported m = import_model(kData + "bert.onnx");
    LoraOptions o = parse_lora("r=8");
    o.seed = seed;
    std::vector<double> all;
    for (const LoraAdapter& a : add_lora(m.graph, o).adapters) {
      const HostTensor& t = m.graph.values[static_cast<size_t>(a.a)].data;
      const double bound = 1 / std::sqrt(static_cast<double>(t.dims()[0]));
      for (const double x : t.to_doubles()) all.push_back(x / bound);
      for (const double x : m.graph.values[static_cast<size_t>(a.b)].data.to_doubles()) CHECK(x == 0);
    }
    return all;
  };
  const std::vector<double> a = start(1);
  CHECK(a == start(1));
  CHECK(a != start(2));
  double mean = 0, square = 0, most = 0;
  for (const double x : a) {
    mean += x / static_cast<double>(a.size());
    square += x * x / static_cast<double>(a.size());
    most = std::max(most, std::abs(x));
  }
  CHECK(std::abs(mean) < 0.05);
  CHECK(square == Catch::Approx(1.0 / 3).epsilon(0.06));
  CHECK(most <= 1);
  CHECK(most > 0.99);
}

TEST_CASE("weights stored transposed, scaled by Gemm, shared or of another type are merged as they are used") {
  // w0 [3,4] is transposed. Two Gemms with alpha read w1. w2 is fp16 before a Cast; its bits are {1, 0.5, -1, 0, 1.5,
  // 0.5, 2, -1, 1}. `both` is read in both directions, so it gets no adapter.
  const char* text = R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,3] y, float[N,3] z)
    <float[3,4] w0 = {0.1,0.2,-0.3,0.4,0.5,-0.6,0.7,0.8,-0.9,1,1.1,-1.2}, float[3,3] w1 = {1,2,3,-4,5,6,7,-8,9}, float[3] b1 = {1,2,3},
     float16[3,3] w2 = {15360,14336,48128,0,15872,14336,16384,48128,15360}, float[3,3] both = {1,0,2,0,1,0,3,0,1}>
    { t = Transpose <perm = [1,0]> (w0)  a = MatMul (x, t)  b = Gemm <alpha = 0.5, transB = 1> (a, w1, b1)
      c = Tanh (b)  d = Gemm <alpha = 2.0, transB = 1> (c, w1)  w = Cast <to = 1> (w2)  e = MatMul (d, w)
      f = MatMul (e, both)  u = Transpose (both)  y = MatMul (f, u)  z = Relu (e) })";
  const TempDir f;
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text);
  REQUIRE(parser.Parse(proto).IsOK());
  std::ofstream(f / "in.onnx", std::ios::binary) << proto.SerializeAsString();
  const HostTensor x = HostTensor::of<float>({2, 4}, {0.3f, -0.2f, 0.5f, 0.1f, -0.4f, 0.2f, 0.6f, -0.1f});
  for (const bool keep : {false, true}) {
    INFO("keep " << keep);
    Imported m = import_model(f / "in.onnx");
    LoraOptions o = parse_lora("r=2,alpha=1");
    o.keep = keep;
    const auto adapters = add_lora(m.graph, o).adapters;
    CHECK(adapters.size() == 3);
    for (const LoraAdapter& a : adapters) {  // sets values as after training
      SourceValue& b = m.graph.values[static_cast<size_t>(a.b)];
      HostTensor t = HostTensor::empty(DType::f32, b.data.dims());
      for (int64_t i = 0; i < t.numel(); ++i) t.as_mutable<float>()[i] = 0.25f * static_cast<float>(i % 7 - 3);
      b.data = t.cast(b.data.dtype());
    }
    const Imported plain = import_model(f / "in.onnx");
    Session s(m.graph, {}), before(plain.graph, {});
    const Tensors y = s.forward(m.graph.outputs, {{"x", x}});
    CHECK(difference(y.at("y"), before.forward(plain.graph.outputs, {{"x", x}}).at("y")) > 0.01);
    export_model(*m.doc, m.graph, keep ? all_parameters(s) : merge_lora(m.graph, adapters, all_parameters(s)), {},
                 f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    Session other(again.graph, {});
    const Tensors have = other.forward(again.graph.outputs, {{"x", x}});
    for (const char* name : {"y", "z"})
      CHECK(difference(have.at(name), y.at(name)) < (keep ? 1e-6 : 2e-3));  // merging rounds w2 to fp16
    if (!keep) continue;
    onnx::ModelProto out;
    std::ifstream in(f / "out.onnx", std::ios::binary);
    REQUIRE(out.ParseFromIstream(&in));
    CHECK(out.graph().output(0).name() == "y");
    // Added nodes: each of the four uses has two products (A and B) and a sum. Two uses also have a factor. Three
    // adapters scale B.
    CHECK(out.graph().node_size() == proto.graph().node_size() + 4 * 3 + 2 + 3);
  }
}

TEST_CASE("FusedMatMul of optimized files takes adapters; what transposes batches or ends in an activation does not") {
  const char* text = R"(
    <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[N,4] x) => (float[N,3] y)
    <float[3,4] w0 = {0.1,0.2,-0.3,0.4,0.5,-0.6,0.7,0.8,-0.9,1,1.1,-1.2}, float[3,3] w1 = {1,2,3,-4,5,6,7,-8,9}>
    { t = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (x, w0)
      y = com.microsoft.FusedGemm <activation = "Relu"> (t, w1) })";
  const TempDir f;
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text);
  REQUIRE(parser.Parse(proto).IsOK());
  std::ofstream(f / "in.onnx", std::ios::binary) << proto.SerializeAsString();
  const HostTensor x = HostTensor::of<float>({2, 4}, {0.3f, -0.2f, 0.5f, 0.1f, -0.4f, 0.2f, 0.6f, -0.1f});
  Imported m = import_model(f / "in.onnx");
  const Imported plain = import_model(f / "in.onnx");
  const auto adapters = add_lora(m.graph, parse_lora("r=2,alpha=1")).adapters;
  REQUIRE(adapters.size() == 1);
  CHECK(m.graph.shown(adapters[0].weight) == "w0");
  CHECK(adapters[0].transposed);
  SourceValue& b = m.graph.values[static_cast<size_t>(adapters[0].b)];
  b.data = HostTensor::of<float>({2, 3}, {1, -1, 0.5f, 2, 0.25f, -0.75f});  // a value as after training
  Session s(m.graph, {}), before(plain.graph, {});
  const HostTensor y = s.forward(m.graph.outputs, {{"x", x}}).at("y");
  CHECK(difference(y, before.forward(plain.graph.outputs, {{"x", x}}).at("y")) > 0.01);
  export_model(*m.doc, m.graph, merge_lora(m.graph, adapters, all_parameters(s)), {}, f / "out.onnx");
  const Imported again = import_model(f / "out.onnx");
  Session other(again.graph, {});
  CHECK(difference(other.forward(again.graph.outputs, {{"x", x}}).at("y"), y) < 1e-6);
}

TEST_CASE("a `lora` that says nothing sensible is a usage error") {
  for (const char* text : {"", "r=0", "r=8,alpha", "rank=8", "r=8,targets=", "r=1.5", "dropout=1", "alpha=-1",
                           "r=8,,alpha=1", "dora=yes", "fused=1", "init=best", "lr_ratio=0", "rank_pattern=4",
                           "rank_pattern=:4", "rank_pattern=q:1.5", "alpha_pattern=q:0"}) {
    INFO(text);
    const Error e = error_of([&] { parse_lora(text); });
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_LORA");
  }
  Imported m = import_model(kData + "bert.onnx");
  CHECK(error_of([&] { add_lora(m.graph, parse_lora("r=8,targets=*embeddingz*")); }).id() == "E_LORA");
  Imported conv = import_model(kData + "conv.onnx");
  CHECK(error_of([&] { add_lora(conv.graph, parse_lora("r=8")); }).id() == "E_LORA");
}
