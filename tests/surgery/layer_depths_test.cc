// Compares depths of parameters below the head with timm's param_groups_layer_decay
// (tests/data/surgery/layer_decay.json).
#include "importer/discover/layer_depths.h"

#include <cmath>

#include "surgery.h"

using namespace amp;
using namespace amp::test;

static Imported with_layers(const std::string& path) {
  ImportOptions o;
  o.find_layers = true;
  return import_model(path, o);
}

TEST_CASE("layers are timm's, by what the exporters left of the names") {
  const nlohmann::json golden = json_of("layer_decay.json");
  const double decay = golden.at("layer_decay");
  REQUIRE(golden.at("files").size() == 7);
  for (const auto& [file, scales] : golden.at("files").items()) {
    INFO(file);
    const Imported m = with_layers(kData + file);
    REQUIRE(scales.size() >= 25);
    for (const auto& [name, scale] : scales.items()) {
      INFO(name);
      const int v = m.graph.find(name);
      REQUIRE(v >= 0);
      INFO(m.graph.values[static_cast<size_t>(v)].reason);
      REQUIRE(m.graph.values[static_cast<size_t>(v)].kind == SourceKind::parameter);
      REQUIRE(m.layers.depth.count(name));
      CHECK(std::pow(decay, m.layers.depth.at(name)) == scale.get<double>());
    }
  }
}

TEST_CASE("the layers of transformers' models") {
  const auto depth = [](const Imported& m, const std::string& own) {
    const std::string name = "m." + own;  // the exported module has the model as its member m
    INFO(name);
    REQUIRE(m.layers.depth.count(name));
    return m.layers.depth.at(name);
  };
  SECTION("an encoder: embeddings, layers, pooler and classifier") {
    const Imported m = with_layers(kData + "bert.onnx");
    REQUIRE(m.layers.layers.size() == 2);
    CHECK(m.layers.layers[0].name == "m.bert.encoder.layer.0");
    CHECK(m.layers.layers[0].depth == 2);
    CHECK(depth(m, "bert.embeddings.word_embeddings.weight") == 3);
    CHECK(depth(m, "bert.embeddings.LayerNorm.bias") == 3);
    CHECK(depth(m, "bert.encoder.layer.0.attention.self.query.weight") == 2);
    CHECK(depth(m, "bert.encoder.layer.1.output.dense.bias") == 1);
    CHECK(depth(m, "bert.pooler.dense.bias") == 0);
    CHECK(depth(m, "classifier.weight") == 0);
  }
  SECTION("a decoder whose head is tied to its embeddings") {
    const Imported m = with_layers(kData + "gpt2.onnx");
    CHECK(depth(m, "transformer.wte.weight") == 3);
    CHECK(depth(m, "transformer.h.0.ln_1.weight") == 2);
    CHECK(depth(m, "transformer.ln_f.weight") == 1);
    for (const auto& [name, d] : m.layers.depth) CHECK(d > 0);
  }
  SECTION("a relative position bias within the first layer, a norm behind the last one") {
    const Imported m = with_layers(kData + "t5_encoder.onnx");
    CHECK(m.layers.layers.size() == 2);  // block.0.layer.1 is part of block 0
    CHECK(depth(m, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight") == 2);
    CHECK(depth(m, "encoder.final_layer_norm.weight") == 1);
  }
  SECTION("no layers") {
    const Imported m = with_layers(kZoo + "autoencoder_ts11/model.onnx");
    CHECK(m.layers.layers.empty());
    CHECK(m.layers.depth.empty());
  }
}
