// Tests heads of every kind against PyTorch, classifiers of another size, and truncated models.
#include "importer/surgery/head.h"

#include "importer/surgery/classifier.h"
#include "importer/surgery/cut.h"
#include "surgery.h"
#include "tests/support.h"
#include "trainer/tasks/task.h"

using namespace amp;
using namespace amp::test;

namespace {

HostTensor transposed(const HostTensor& t) {
  HostTensor out = HostTensor::empty(DType::f32, {t.dims()[1], t.dims()[0]});
  for (int64_t i = 0; i < t.dims()[0]; ++i) {
    for (int64_t j = 0; j < t.dims()[1]; ++j)
      out.as_mutable<float>()[j * t.dims()[0] + i] = t.as<float>()[i * t.dims()[1] + j];
  }
  return out;
}

HostTensor with_dims(const HostTensor& t, const Dims& d) {
  return HostTensor(t.dtype(), d, std::make_shared<HostTensor>(t), t.data());
}

// Returns the output of the node called `name`.
std::string made_by(const SourceGraph& g, const std::string& name) {
  for (const SourceNode& n : g.nodes) {
    if (n.name == name) return g.values[static_cast<size_t>(n.outputs.at(0))].name;
  }
  FAIL("no node " << name);
  throw 0;
}

HeadOptions options_for(const SourceGraph& g, const std::string& kind, const std::string& from, int64_t labels) {
  HeadOptions h;
  h.kind = kind;
  h.always = true;
  h.from = from;
  h.num_labels = labels;
  h.dropout = 0;
  std::vector<int> probed = g.outputs;
  if (!from.empty()) probed = {g.find(from)};
  h.probe = probe_shapes(g, ParamTable(g), shapes_for(g, probed, 5), cpu_evaluator());
  return h;
}

}  // namespace

TEST_CASE("heads compute PyTorch's losses and gradients and survive the export") {
  const Tensors t = tensors_of(kData + "heads.safetensors");
  const nlohmann::json kinds = json_of("heads.json");
  for (const auto& [name, want] : kinds.items()) {
    DYNAMIC_SECTION(name) {
      const bool bert = want["trunk"] == "bert";
      const std::string kind = name == "global" ? "classification" : name;
      Imported m = import_model(kData + (bert ? "bert.onnx" : "conv.onnx"));
      SourceGraph& g = m.graph;
      const std::string from = bert ? made_by(g, "/m/bert/encoder/layer.1/output/LayerNorm/Add_1") : "features";
      const HeadOptions h = options_for(g, kind, from, want["num_labels"]);
      const HeadChoice choice = choose_head(g, h);
      CHECK(choice.pooling == (name == "global"                                              ? "global"
                               : kind == "token" || kind == "span" || kind == "segmentation" ? "none"
                                                                                             : "mean"));
      LossSpec loss;
      loss.kind = default_loss(task_from_name(kind));
      loss.outputs = attach_head(g, choice, h);
      if (kind == "span") CHECK(loss.outputs.at(0).rfind("start_logits", 0) == 0);

      const int w = g.find("classifier.weight"), b = g.find("classifier.bias");
      SourceValue& weight = g.values[static_cast<size_t>(w)];
      const bool flipped = kind == "token" || kind == "span";
      const auto laid = [&](const HostTensor& x) { return flipped ? transposed(x) : with_dims(x, weight.data.dims()); };
      weight.data = laid(t.at(name + ".w"));
      g.values[static_cast<size_t>(b)].data = t.at(name + ".b");
      Tensors batch = bert ? pick(t, {"input_ids", "attention_mask"}) : pick(t, {"image"});
      batch["label"] = t.at(name + ".label");
      Session s(g, {});
      CHECK(step_loss(s, loss, batch) == Catch::Approx(want["loss"].get<double>()).epsilon(2e-6));
      const auto grad = [&](int v) { return s.grad(s.table().slot_of[static_cast<size_t>(v)]); };
      CHECK(difference(grad(w), laid(t.at(name + ".gw"))) < 1e-5);
      if (kind == "span") {  // the bias shifts all logits equally, so its gradient is only a rounding error
        for (const double x : grad(b).to_doubles()) CHECK(std::abs(x) < 1e-6);
      } else {
        CHECK(difference(grad(b), t.at(name + ".gb")) < 1e-5);
      }
      const int trunk = bert ? g.find("m.bert.encoder.layer.1.attention.self.query.bias") : g.find("one.bias");
      REQUIRE(trunk >= 0);
      CHECK(difference(grad(trunk), t.at(name + ".gt")) < 2e-5);

      const TempDir f;
      export_model(*m.doc, g, all_parameters(s), {}, f / "out.onnx");
      const Imported again = import_model(f / "out.onnx");
      Session other(again.graph, {});
      std::vector<int> ours, theirs;
      for (const std::string& o : loss.outputs) {
        ours.push_back(g.find(o));
        theirs.push_back(again.graph.find(o));
        REQUIRE(theirs.back() >= 0);
      }
      batch.erase("label");
      const Tensors x = s.forward(ours, batch), y = other.forward(theirs, batch);
      for (const std::string& o : loss.outputs) CHECK(difference(y.at(o), x.at(o)) < 1e-6);
    }
  }
}

TEST_CASE("a head refuses what it cannot read") {
  Imported conv = import_model(kData + "conv.onnx"), bert = import_model(kData + "bert.onnx");
  CHECK(error_of([&] { choose_head(conv.graph, options_for(conv.graph, "token", "features", 3)); }).id() == "E_HEAD");
  CHECK(error_of([&] { choose_head(conv.graph, options_for(conv.graph, "span", "", 2)); }).id() == "E_HEAD");
  CHECK(error_of([&] { choose_head(bert.graph, options_for(bert.graph, "segmentation", "", 2)); }).id() == "E_HEAD");
}

TEST_CASE("a head is attached to a model without inputs") {
  Imported m = import_model(test_data("importer/contrib/inverse_weight.onnx"));
  REQUIRE(m.graph.inputs.empty());
  const HeadOptions h = options_for(m.graph, "token", "", 3);
  CHECK(attach_head(m.graph, choose_head(m.graph, h), h) == std::vector<std::string>{"logits"});
}

TEST_CASE("a head's weights follow the seed") {
  const auto weights = [](uint64_t seed) {
    Imported m = import_model(kData + "conv.onnx");
    HeadOptions h = options_for(m.graph, "classification", "features", 64);
    h.seed = seed;
    attach_head(m.graph, choose_head(m.graph, h), h);
    return m.graph.values[static_cast<size_t>(m.graph.find("classifier.weight"))].data.to_doubles();
  };
  const std::vector<double> a = weights(1);
  CHECK(a == weights(1));
  CHECK(a != weights(2));
  double sum = 0, squares = 0;
  for (const double x : a) {
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(a.size());
  CHECK(std::abs(sum / n) < 4 * 0.02 / std::sqrt(n));
  CHECK(std::sqrt(squares / n) == Catch::Approx(0.02).epsilon(0.15));
}

TEST_CASE("a classifier of another size takes the place of the model's") {
  const auto resized = [](const std::string& path, int64_t labels, const Tensors& batch, const char* output) {
    INFO(path);
    const TempDir f;
    Imported m = import_model(path);
    SourceGraph& g = m.graph;
    const auto c = find_classifier(g, g.find(output));
    REQUIRE(c);
    CHECK(c->labels != labels);
    CHECK(resize_classifier(g, *c, labels, 42).size() == (c->bias < 0 ? 1u : 2u));
    Session s(g, {});
    const HostTensor x = s.forward({g.find(output)}, batch).at(output);
    CHECK(x.dims().back() == labels);
    export_model(*m.doc, g, {}, {}, f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    const SourceValue& o = again.graph.values[static_cast<size_t>(again.graph.find(output))];
    if (o.rank_known) CHECK((o.dims.back().value == labels || o.dims.back().value < 0));
    CHECK(again.graph.nodes.size() == m.graph.nodes.size());
    Session other(again.graph, {});
    CHECK(difference(other.forward({again.graph.find(output)}, batch).at(output), x) < 1e-6);
    // The trunk's weights keep their bits.
    for (const SourceValue& v : m.graph.values) {
      if (v.kind != SourceKind::parameter || v.replaced) continue;
      CHECK(v.data.to_doubles() == again.graph.values[static_cast<size_t>(again.graph.find(v.name))].data.to_doubles());
    }
  };
  const Tensors ids = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask"});
  for (const char* name : {"bert", "electra", "albert", "distilbert"})
    resized(kData + name + ".onnx", 7, ids, "logits");
  for (const char* name : {"bert_cls_eager_ts14", "bert_cls_sdpa_dyn18", "lenet_relu_dyn18", "sklearn_mlp_hand15"}) {
    const std::string dir = kZoo + name;
    Tensors batch = tensors_of(dir + "/batch.safetensors");
    batch.erase("label");
    const SourceGraph g = import_model(dir + "/model.onnx").graph;
    const std::string output = g.find("logits") >= 0 ? "logits" : g.values[static_cast<size_t>(g.outputs.at(0))].name;
    resized(dir + "/model.onnx", 7, batch, output.c_str());
  }
}

TEST_CASE("what is no classifier is not taken for one") {
  // No classifier: its head's weight is tied to the embedding table.
  const Imported gpt2 = import_model(kData + "gpt2.onnx");
  CHECK_FALSE(find_classifier(gpt2.graph, gpt2.graph.find("logits")));
  const Imported embed = import_model(kZoo + "minilm_embed_ts14/model.onnx");
  for (const int o : embed.graph.outputs) CHECK_FALSE(find_classifier(embed.graph, o));
  const Imported t5 = import_model(kData + "t5_encoder.onnx");
  CHECK_FALSE(find_classifier(t5.graph, t5.graph.find("logits")));
}

TEST_CASE("cutting drops what follows, from the exported file too") {
  const TempDir f;
  Imported m = import_model(kData + "bert.onnx");
  SourceGraph& g = m.graph;
  const size_t nodes = g.nodes.size();
  const std::string tanh = made_by(g, "/m/bert/pooler/activation/Tanh");
  std::vector<std::string> lines;
  const int at = cut_graph(g, "/m/bert/encoder/layer.0/output/LayerNorm/Add_1", lines);
  CHECK(g.outputs == std::vector<int>{at});
  CHECK(g.nodes.size() < nodes - 50);
  CHECK(g.find("logits") < 0);
  CHECK(lines.at(0).find("with the outputs logits") != std::string::npos);

  HeadOptions h = options_for(g, "token", g.values[static_cast<size_t>(at)].name, 5);
  std::erase(g.outputs, at);
  const std::vector<std::string> names = attach_head(g, choose_head(g, h), h);
  CHECK(names == std::vector<std::string>{"logits"});  // the removed output's name is used again
  Session s(g, {});
  for (size_t i = 0; i < s.table().size(); ++i) CHECK(s.layout().chunks()[i].name.find("layer.1") == std::string::npos);
  export_model(*m.doc, g, all_parameters(s), {}, f / "out.onnx");
  CHECK(std::filesystem::file_size(f / "out.onnx") < std::filesystem::file_size(kData + "bert.onnx") * 3 / 4);
  const Imported again = import_model(f / "out.onnx");
  CHECK(again.graph.outputs.size() == 1);
  CHECK(again.graph.find(tanh) < 0);
  const Tensors ids = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask"});
  Session other(again.graph, {});
  CHECK(difference(other.forward({again.graph.find("logits")}, ids).at("logits"),
                   s.forward({g.find("logits")}, ids).at("logits")) < 1e-6);
}

TEST_CASE("cutting at nothing is an error") {
  Imported m = import_model(kData + "conv.onnx");
  std::vector<std::string> lines;
  CHECK(error_of([&] { cut_graph(m.graph, "feature", lines); }).id() == "E_CUT");
  CHECK(error_of([&] { cut_graph(m.graph, "image", lines); }).id() == "E_CUT");
  CHECK(error_of([&] { cut_graph(m.graph, "one.weight", lines); }).id() == "E_CUT");
}
