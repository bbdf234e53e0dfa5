// Tests which linear map a module of an adapter is placed in, by names of PyTorch, of onnxruntime-genai's model builder
// and of exporters.
#include "importer/adapter/module_names.h"

#include <catch2/catch_all.hpp>

#include "tests/errors.h"

using namespace amp;
using namespace amp::test;

namespace {

using Maps = std::vector<NamedMap>;

// Returns the Placements as texts "MODULE>MAP:from:first:size PART", with the indices of module and map.
std::vector<std::string> placed(const std::vector<ModuleShape>& modules, const Maps& maps) {
  std::vector<std::string> out;
  for (const Placement& p : place_modules(modules, maps))
    out.push_back(cat(p.module, ">", p.map, ":", p.from, ":", p.first, ":", p.size, p.part.empty() ? "" : " ", p.part));
  return out;
}

using Lines = std::vector<std::string>;

const LinearMap::Part kQ{"q", 0, 64}, kK{"k", 64, 32}, kV{"v", 96, 32};

Maps builders_layers() {
  Maps maps;
  for (const char* layer : {"0", "1"}) {
    const auto node = [&](const char* map) { return cat("/model/layers.", layer, "/", map, "/MatMul_Q4"); };
    maps.push_back({{node("attn/qkv_proj")}, 64, 128, {kQ, kK, kV}});
    maps.push_back({{node("attn/o_proj")}, 64, 64, {}});
    maps.push_back({{node("mlp/gate_proj")}, 64, 100, {}});
    maps.push_back({{node("mlp/up_proj")}, 64, 100, {}});
  }
  return maps;
}

}  // namespace

TEST_CASE("modules of PyTorch are placed in the builder's maps") {
  const Maps maps = builders_layers();
  CHECK(placed({{"model.layers.1.self_attn.o_proj", 64, 64}}, maps) == Lines{"0>5:0:0:64"});
  // Phi names the output projection "dense"
  CHECK(placed({{"model.layers.0.self_attn.dense", 64, 64}}, maps) == Lines{"0>1:0:0:64"});
  CHECK(placed({{"model.layers.0.self_attn.k_proj", 64, 32}, {"model.layers.1.self_attn.v_proj", 64, 32}}, maps) ==
        Lines{"0>0:0:64:32 k", "1>4:0:96:32 v"});
  // Parts of a packed module are placed in separate maps.
  CHECK(placed({{"model.layers.1.mlp.gate_up_proj", 64, 200}}, maps) == Lines{"0>6:0:0:100", "0>7:100:0:100"});
  CHECK(placed({{"model.layers.0.self_attn.qkv_proj", 64, 128}}, maps) == Lines{"0>0:0:0:128"});
  // Names of slots, and a longer path before the layers, are accepted.
  CHECK(placed({{"model.layers.1.attn.qkv_proj", 64, 128}}, maps) == Lines{"0>4:0:0:128"});
  CHECK(placed({{"model.language_model.layers.1.mlp.up_proj", 64, 100}}, maps) == Lines{"0>7:0:0:100"});
}

TEST_CASE("the longest common path decides") {
  const Maps maps = {{{"encoder.layer.0.output.dense.weight"}, 8, 8, {}},
                     {{"encoder.layer.0.attention.output.dense.weight"}, 8, 8, {}},
                     {{"onnx::MatMul_7", "/h.0/mlp/c_fc/Gemm"}, 8, 8, {}}};
  CHECK(placed({{"bert.encoder.layer.0.attention.output.dense", 8, 8}, {"bert.encoder.layer.0.output.dense", 8, 8}},
               maps) == Lines{"0>1:0:0:8", "1>0:0:0:8"});
  CHECK(placed({{"transformer.h.0.mlp.c_fc", 8, 8}}, maps) == Lines{"0>2:0:0:8"});
}

TEST_CASE("E_ADAPTER_FIT: modules that fit no map, several maps, or another shape are refused by name") {
  const Maps maps = builders_layers();
  const auto refused = [](const std::string& part, const std::vector<ModuleShape>& modules, const Maps& of) {
    expect_error("E_ADAPTER_FIT", part, [&] { place_modules(modules, of); });
  };
  refused("'model.layers.2.self_attn.o_proj'", {{"model.layers.2.self_attn.o_proj", 64, 64}}, maps);
  refused("no linear map for 1 module of the adapter",
          {{"model.layers.0.self_attn.query", 64, 64}, {"model.layers.0.mlp.fc1", 64, 64}}, maps);
  refused("has 32 inputs and 64 outputs", {{"model.layers.0.self_attn.o_proj", 32, 64}}, maps);
  refused("(k) of the model has 64 inputs and 32 outputs", {{"model.layers.0.self_attn.k_proj", 64, 64}}, maps);
  refused("q|k|v of the model have", {{"a.qkv_proj", 8, 30}},
          {{{"a.q_proj"}, 8, 8, {}}, {{"a.k_proj"}, 8, 8, {}}, {{"a.v_proj"}, 8, 8, {}}});
  refused("has no map for up", {{"a.gate_up_proj", 8, 16}}, {{{"a.gate_proj"}, 8, 8, {}}});
  refused("fits '/model/layers.0/attn/o_proj/MatMul_Q4' and", {{"o_proj", 64, 64}}, maps);
  refused("both fit", {{"model.layers.0.self_attn.o_proj", 64, 64}, {"layers.0.attn.o_proj", 64, 64}}, maps);
  // The paths of module and map differ before their common ending, so the module is refused.
  refused("no linear map", {{"model.vision.layers.0.q", 8, 8}}, {{{"model.text.layers.0.q"}, 8, 8, {}}});
}
