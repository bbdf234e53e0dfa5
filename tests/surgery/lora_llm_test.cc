// Tests LoRA and DoRA on a quantized language model against PyTorch and PEFT (float64): loss and gradients of A, B and
// the magnitudes, for values of A and B that are not zero. tests/data/surgery/llm/README.md says where the files are
// from.
#include "importer/surgery/lora.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kLlm = kData + "llm/";

LoraResult adapt_text(SourceGraph& g, const std::string& text) {
  LoraOptions o = parse_lora(text);
  o.evaluate = cpu_evaluator();
  return add_lora(g, o);
}

// Golden names are those of modules: "layers.0.attn.q_proj.lora_A" for "layers.0.attn.q_proj.MatMul.weight.lora_A".
std::string module_of(const std::string& adapter) { return adapter.substr(0, adapter.find(".MatMul")); }

// Compares loss and all gradients of one batch. Returns the largest difference, relative to the largest element.
double worst_gradient(const std::string& model, const Tensors& golden, const std::string& text, bool keep = false) {
  Imported m = import_model(model);
  SourceGraph& g = m.graph;
  const LoraResult r = adapt_text(g, text);
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
  Tensors batch = pick(golden, {"input_ids", "attention_mask", "label"});
  if (g.find("position_ids") >= 0) {
    const Dims d = batch.at("input_ids").dims();
    HostTensor places = HostTensor::empty(DType::i64, d);
    for (int64_t i = 0; i < places.numel(); ++i) places.as_mutable<int64_t>()[i] = i % d[1];
    batch["position_ids"] = places;
  }
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
  (void)keep;
  return worst;
}

}  // namespace

TEST_CASE("scratch zoo", "[.zoo]") {
  std::ifstream in("/tmp/h_llm_lora/cases/list.json");
  for (const auto& c : nlohmann::json::parse(in)) {
    const std::string name = c[0], folder = c[1], text = c[2];
    try {
      const double w = worst_gradient("/tmp/h_llm_lora/prep/" + folder + "/model.onnx",
                                      tensors_of("/tmp/h_llm_lora/cases/" + name + ".safetensors"), text);
      std::cout << name << " worst " << w << std::endl;
    } catch (const Error& e) {
      std::cout << name << " " << e.what() << std::endl;
    }
  }
}
