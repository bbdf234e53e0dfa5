// Tests LoRA and DoRA on a quantized language model against PyTorch and PEFT (float64): loss and gradients of A, B and
// the magnitudes, for values of A and B that are not zero. tests/data/surgery/llm/README.md says where the files are
// from.
#include "base/text.h"
#include "importer/surgery/lora.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kLlm = kData + "llm/";

Imported import_llama() {
  ImportOptions o;
  o.past.head_size = 16;
  return import_model(test_data("llm/llama-int4/model.onnx"), o);
}

LoraResult adapt_text(SourceGraph& g, const std::string& text) {
  LoraOptions o = parse_lora(text);
  o.evaluate = cpu_evaluator();
  return add_lora(g, o);
}

// Returns the name in the golden file: "layers.0.attn.q_proj.lora_A" for "layers.0.attn.q_proj.MatMul.weight.lora_A".
std::string module_of(const std::string& adapter) { return adapter.substr(0, adapter.find(".MatMul")); }

// Compares loss and all gradients of one batch. Returns the largest difference, relative to the largest element.
double worst_gradient(Imported m, const Tensors& golden, const std::string& text, bool keep = false) {
  SourceGraph& g = m.graph;
  LoraOptions o = parse_lora(text);
  o.evaluate = cpu_evaluator();
  o.keep = keep;
  const LoraResult r = add_lora(g, o);
  std::map<int, std::string> names;
  for (const LoraAdapter& a : r.adapters) {
    names[a.a] = module_of(a.name) + ".lora_A";
    names[a.b] = module_of(a.name) + ".lora_B";
    if (a.magnitude >= 0) names[a.magnitude] = module_of(a.name) + ".lora_magnitude";
  }
  for (const auto& [v, name] : names) {
    SourceValue& x = g.values[static_cast<size_t>(v)];
    REQUIRE(golden.at(name).dims() == x.data.dims());
    x.data = golden.at(name).cast(x.data.dtype());
  }
  size_t wanted = 0;
  for (const auto& [name, t] : golden) wanted += name.starts_with("grad/");
  CHECK(names.size() == wanted);
  LossSpec loss;
  loss.kind = "causal_lm";
  loss.outputs = {"logits"};
  const Tensors batch = pick(golden, {"input_ids", "attention_mask", "label"});
  Session s(g, {});
  s.prepare(loss, batch);
  const std::vector<double> items = count_items(loss, batch.at("label"));
  std::vector<double> seeds;
  for (const double n : items) seeds.push_back(1 / n);
  const std::vector<double> sums = run_micro_batch(s, loss, batch, seeds, false);
  CHECK(sums.at(0) * seeds.at(0) == Catch::Approx(golden.at("loss").to_doubles().at(0)).epsilon(1e-6));
  double worst = 0;
  for (const auto& [v, name] : names) {
    const double d = difference(s.grad(s.table().slot_of[static_cast<size_t>(v)]), golden.at("grad/" + name));
    UNSCOPED_INFO(name << " " << d);
    worst = std::max(worst, d);
  }
  return worst;
}

}  // namespace

TEST_CASE("LoRA and DoRA on MatMulNBits have the gradients of PEFT") {
  // Tolerance 1e-5: gradients are float32, and the model's sums have at most 128 terms.
  SECTION("q, k and v apart") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "lora.safetensors"), "r=4,alpha=8") < 1e-5);
  }
  SECTION("exported as nodes") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "lora.safetensors"), "r=4,alpha=8", true) < 1e-5);
  }
  SECTION("rsLoRA with alpha / sqrt(r) = 2") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "lora.safetensors"), "r=4,alpha=4,rslora=true") < 1e-5);
  }
  SECTION("patterns that give every map r 4 and alpha 8") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "lora.safetensors"),
                         "r=2,alpha=1,rank_pattern=mlp:4,rank_pattern=*layers*:4,alpha_pattern=*:8") < 1e-5);
  }
  SECTION("DoRA") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "dora.safetensors"), "r=4,alpha=8,dora=true") < 1e-5);
  }
  SECTION("one adapter for q|k|v") {
    CHECK(worst_gradient(import_llama(), tensors_of(kLlm + "fused.safetensors"), "r=4,alpha=8,fused=true") < 1e-5);
  }
}

TEST_CASE("targets select maps and parts by role, by glob and by a part of the name") {
  const auto selected = [](const std::string& targets) {
    Imported m = import_llama();
    std::vector<std::string> names;
    for (const LoraAdapter& a : adapt_text(m.graph, "r=2" + targets).adapters) {
      const std::string name = module_of(a.name);
      if (name.find("layers.1") == std::string::npos) names.push_back(name.substr(name.rfind('.') + 1));
    }
    return join(names, " ");
  };
  CHECK(selected("") == "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj");
  CHECK(selected(",targets=all-linear") == selected(""));
  CHECK(selected(",fused=true") == "qkv_proj o_proj gate_proj up_proj down_proj");
  CHECK(selected(",targets=attention") == "q_proj k_proj v_proj o_proj");
  CHECK(selected(",targets=mlp") == "gate_proj up_proj down_proj");
  CHECK(selected(",targets=qkv") == "q_proj k_proj v_proj");
  CHECK(selected(",targets=q_proj,targets=v_proj") == "q_proj v_proj");
  CHECK(selected(",targets=*layers.0.attn.o_proj*") == "o_proj");
  CHECK(selected(",targets=/model/layers.0/mlp/down_proj/MatMul_Q4") == "down_proj");
  CHECK(selected(",targets=k,targets=down") == "k_proj down_proj");
  CHECK(selected(",targets=head") == "lm_head");
  CHECK(selected(",targets=embedding") == "embed_tokens");
  CHECK(selected(",targets=*") == selected("") + " lm_head");
}

TEST_CASE("an adapter describes its map, its part and the parameters of the graph") {
  Imported m = import_llama();
  const LoraResult r = adapt_text(m.graph, "r=4,alpha=8,dora=true");
  const LoraAdapter& v = r.adapters.at(2);
  CHECK(v.name == "model.layers.0.attn.v_proj.MatMul.weight");
  CHECK(v.map == "model.layers.0.attn.qkv_proj.MatMul.weight");
  CHECK(v.node == "/model/layers.0/attn/qkv_proj/MatMul_Q4");
  CHECK(v.role == "qkv");
  CHECK(v.part == "v");
  CHECK(v.kind == MapKind::packed);
  CHECK(v.in == 64);
  CHECK(v.out == 32);
  CHECK(v.first == 96);
  CHECK(v.map_out == 128);
  CHECK(v.rank == 4);
  CHECK(v.scale == 2);
  CHECK_FALSE(v.merged);
  CHECK(m.graph.value(v.a).name == v.name + ".lora_A");
  CHECK(m.graph.value(v.b).name == v.name + ".lora_B");
  CHECK(m.graph.value(v.magnitude).name == v.name + ".lora_magnitude");
  CHECK(m.graph.value(v.a).data.dims() == Dims{64, 4});
  CHECK(m.graph.value(v.b).data.dims() == Dims{4, 32});
  CHECK(m.graph.value(v.magnitude).data.dims() == Dims{32});
}

TEST_CASE("the lines say how many maps, which roles, which share, and what the export does") {
  Imported m = import_llama();
  const LoraResult r = adapt_text(m.graph, "r=4,alpha=8,rslora=true");
  // A and B of a map together have r (in + out) = 4 (in + out) values. The model has two layers of 36,864 weights, a
  // head of 320 x 64 that is also the table, and five norms of 64.
  CHECK(r.lines.at(0) ==
        "lora r=4 alpha=8 rslora on 14 maps: attention (q 2, k 2, v 2, o 2), mlp (gate 2, up 2, down 2); 8,192 new "
        "values, 8.67 % of the model's 94,528");
  const std::string all = join(r.lines, "\n");
  CHECK(all.find("2 maps hold several weights side by side, such as q|k|v: one adapter for each part (fused=true: one "
                 "for all)") != std::string::npos);
  CHECK(all.find("no adapter on the head over the vocabulary, lm_head.MatMul.weight; targets=head adds one") !=
        std::string::npos);
  CHECK(all.find("14 of 14 adapters cannot be merged") != std::string::npos);
  CHECK(r.details.size() == 14);
}
