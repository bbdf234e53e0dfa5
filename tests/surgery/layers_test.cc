// Tests freezing by layer, and which parts of the backward pass are then omitted.
#include "importer/discover/layers.h"

#include <set>

#include "surgery.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("layers are read off names") {
  const auto is = [](const std::string& name, const std::string& stack, int64_t number) {
    const LayerName l = layer_of(name);
    INFO(name << " -> " << l.stack << " " << l.number);
    CHECK(l.stack == stack);
    CHECK(l.number == number);
  };
  is("bert.encoder.layer.3.attention.self.query.weight", "bert.encoder.layer", 3);
  is("/model/layers.11/mlp/MatMul", "model.layers", 11);
  is("transformer.h.0.attn.c_attn.weight", "transformer.h", 0);
  is("blocks.7.norm1.bias", "blocks", 7);
  is("layer4.1.conv2.weight", "layer", 4);
  is("stages.2.blocks.8.gamma", "stages", 2);
  is("encoder.layers.encoder_layer_5.ln_1.weight", "encoder.layers.encoder_layer", 5);
  is("encoder_layer_0_multi_head_att_query_fc.w_0", "encoder_layer", 0);
  is("bert/encoder/layer_10/attention/self/query/kernel", "bert.encoder.layer", 10);
  is("features.denseblock2.denselayer3.conv1.weight", "features.denseblock", 2);
  is("features.5.weight", "features", 5);
  for (const char* name : {"conv1.weight", "bert.embeddings.LayerNorm.bias", "fc2.bias", "player.weight",
                           "onnx::MatMul_470", "path.1.weight"})
    is(name, "", -1);
}

static std::set<std::string> frozen(const SourceGraph& g) {
  std::set<std::string> out;
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind == SourceKind::parameter && !g.values[v].trainable) out.insert(g.shown(static_cast<int>(v)));
  }
  return out;
}

// Returns the source nodes that have gradient nodes in the training graph.
static std::set<std::string> differentiated(const Imported& m) {
  Session s(m.graph, {});
  LossSpec loss;
  loss.outputs = {"logits"};
  Tensors batch = pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask", "label"});
  std::set<std::string> out;
  const auto graph = s.train_graph(loss, batch);
  for (int32_t n = 0; n < graph->n_nodes(); ++n) {
    const Origin& o = graph->node(NodeId{n}).origin;
    if (std::string(o.role) == "gradient of" && o.source_node >= 0)
      out.insert(m.graph.nodes[static_cast<size_t>(o.source_node)].name);
  }
  return out;
}

static size_t count(const std::set<std::string>& names, const std::string& part) {
  return static_cast<size_t>(std::count_if(names.begin(), names.end(),
                                           [&](const std::string& n) { return n.find(part) != std::string::npos; }));
}

TEST_CASE("freezing layers freezes what they stand on and prunes the backward pass") {
  const std::set<std::string> all = differentiated(import_model(kData + "bert.onnx"));
  CHECK(count(all, "/embeddings/") > 0);
  CHECK(count(all, "/layer.0/") >= 9);  // 9, because one product computes query, key and value
  CHECK(count(all, "/layer.1/") >= 10);

  ImportOptions o;
  o.freeze_layers = 1;
  const Imported one = import_model(kData + "bert.onnx", o);
  const std::set<std::string> names = frozen(one.graph);
  CHECK(count(names, ".layer.0.") == 16);
  CHECK(count(names, ".embeddings.") == 5);
  CHECK(names.size() == 21);
  const std::set<std::string> some = differentiated(one);
  CHECK(count(some, "/embeddings/") == 0);
  CHECK(count(some, "/layer.0/") == 0);
  // All nodes of layer 1 are differentiated, except the Slice that takes the first token for the residual sum. Its
  // gradient would only reach its input, the frozen layer 0.
  CHECK(count(some, "/layer.1/") == count(all, "/layer.1/") - 1);

  o.freeze_layers = 0;
  CHECK(frozen(import_model(kData + "bert.onnx", o).graph).size() == 5);
  o.freeze_layers = 2;
  const Imported two = import_model(kData + "bert.onnx", o);
  const std::set<std::string> top = differentiated(two);
  CHECK(count(top, "/layer.") == 0);
  CHECK(count(top, "/pooler/") > 0);
  o.trainable = {"*layer.0.output.dense*"};
  CHECK(frozen(import_model(kData + "bert.onnx", o).graph).size() == frozen(two.graph).size() - 2);
}

TEST_CASE("a tied table freezes with its head") {
  ImportOptions o;
  o.freeze_layers = 1;
  const Imported m = import_model(kData + "gpt2.onnx", o);
  for (const SourceValue& v : m.graph.values) {
    if (v.kind == SourceKind::parameter && v.tied_to >= 0) CHECK_FALSE(v.trainable);
  }
  CHECK(count(frozen(m.graph), ".h.0.") == 12);
  CHECK(count(frozen(m.graph), ".h.1.") == 0);
}

TEST_CASE("layers that are not there are an error that says what is") {
  ImportOptions o;
  o.freeze_layers = 3;
  const Error many = error_of([&] { import_model(kData + "bert.onnx", o); });
  CHECK(many.exit() == Exit::usage);
  CHECK(many.id() == "E_FREEZE_LAYERS");
  CHECK(std::string(many.what()).find("has 2 layers (0 to 1)") != std::string::npos);
  const Error none = error_of([&] { import_model(kData + "conv.onnx", o); });
  CHECK(none.id() == "E_FREEZE_LAYERS");
  CHECK(std::string(none.what()).find("one.weight") != std::string::npos);
}
