// Tests adapters that are written to files and read again: a base with slots and an .onnx_adapter, and a PEFT folder.
// The model with the adapter from the file must compute what the trained model computes. gpt2.onnx packs q|k|v, as
// PyTorch does.
#include <fstream>

#include "base/text.h"
#include "importer/adapter/fit.h"
#include "importer/adapter/trained.h"
#include "importer/surgery/edit.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Adapted {
  Imported model;
  std::vector<AdapterSite> sites;
  std::vector<LoraAdapter> adapters;
  TrainedValues values;
};

Adapted adapted(const std::string& name, const std::string& lora) {
  Adapted out{import_model(kData + name), {}, {}, {}};
  SourceGraph& g = out.model.graph;
  out.sites = adapter_sites(g, out.model.slots);
  LoraOptions o = parse_lora(lora);
  o.separate = true;
  o.evaluate = cpu_evaluator();
  out.adapters = add_lora(g, o).adapters;
  for (const LoraAdapter& a : out.adapters) {
    for (const int v : {a.a, a.b, a.magnitude}) {
      if (v < 0) continue;
      SourceValue& x = g.values[static_cast<size_t>(v)];
      if (v != a.magnitude) x.data = uniform_tensor(x.data.dims(), 0.3, 1, name_hash(x.name));
      out.values[v] = x.data.cast(DType::f32);
    }
  }
  return out;
}

HostTensor output_of(const Imported& m) {
  const SourceGraph& g = m.graph;
  Tensors inputs;
  for (const int v : needed_inputs(g, {g.outputs[0]})) {
    HostTensor t = HostTensor::empty(DType::i64, {2, 5});
    for (int64_t i = 0; i < 10; ++i)
      t.as_mutable<int64_t>()[i] = g.value(v).name == "input_ids"      ? 3 + i
                                   : g.value(v).name == "position_ids" ? i % 5
                                                                       : 1;
    inputs[g.value(v).name] = t;
  }
  Session s(g, {});
  return s.forward({g.outputs[0]}, inputs).begin()->second;
}

// Returns a model's output with the adapter of a file.
HostTensor output_with(Imported m, const std::string& path) {
  const FittedAdapter fitted(m.graph, read_adapter(path));
  LoraOptions o;
  fitted.choose(o);
  o.evaluate = cpu_evaluator();
  fitted.fill(m.graph, add_lora(m.graph, o).adapters);
  return output_of(m);
}

const char* const kModels[] = {"bert.onnx", "gpt2.onnx"};

}  // namespace

TEST_CASE("a base with slots computes as the original, and with the adapter as the trained model") {
  for (const char* name : kModels) {
    for (const char* lora : {"r=3,alpha=7", "r=2,alpha=7,rslora=true,fused=true"}) {
      INFO(name << " " << lora);
      const TempDir folder;
      const Adapted trained = adapted(name, lora);
      const HostTensor want = output_of(trained.model);
      ExportOptions e;
      e.slots = trained.sites;
      export_model(*trained.model.doc, trained.model.graph, {}, e, folder / "base.onnx");
      write_onnx_adapter(folder / "a.onnx_adapter", slot_values(trained.adapters, trained.sites, trained.values));

      const Imported base = import_model(folder / "base.onnx"), original = import_model(kData + name);
      CHECK(base.slots.size() == trained.sites.size());
      // The slot of the classifier remains in the graph as 3 nodes, because the classifier's result is a graph output.
      CHECK(base.graph.nodes.size() == original.graph.nodes.size() + 3);
      CHECK(base.graph.inputs.size() == original.graph.inputs.size());
      CHECK(difference(output_of(base), output_of(original)) == 0);
      CHECK(difference(output_of(original), want) > 1e-3);
      CHECK(difference(output_with(base, folder / "a.onnx_adapter"), want) < 2e-6);
      CHECK(difference(output_with(original, folder / "a.onnx_adapter"), want) < 2e-6);

      // The slots keep their names when a model is made from the base again.
      std::vector<AdapterSite> again = adapter_sites(base.graph, base.slots);
      REQUIRE(again.size() == trained.sites.size());
      for (size_t i = 0; i < again.size(); ++i) {
        CHECK(again[i].in_file);
        CHECK(again[i].a == trained.sites[i].a);
      }
      e.slots = again;
      export_model(*base.doc, base.graph, {}, e, folder / "again.onnx");
      CHECK(read_file(folder / "again.onnx").text() == read_file(folder / "base.onnx").text());
    }
  }
}

TEST_CASE("adapters return from a PEFT folder with the same bits") {
  for (const char* name : kModels) {
    for (const char* lora : {"r=3,alpha=7", "r=2,alpha=7,rslora=true,fused=true", "r=4,dora=true,fused=true"}) {
      INFO(name << " " << lora);
      const TempDir folder;
      const Adapted trained = adapted(name, lora);
      write_peft_folder(folder / "peft",
                        peft_values(trained.adapters, trained.sites, trained.values, {"gpt2", "", nullptr}));
      CHECK(difference(output_with(import_model(kData + name), folder / "peft"), output_of(trained.model)) < 2e-6);

      Adapted again{import_model(kData + name), {}, {}, {}};
      again.sites = adapter_sites(again.model.graph, {});
      const LoadedAdapter file = read_adapter(folder / "peft");
      const FittedAdapter fitted(again.model.graph, file);
      LoraOptions o;
      fitted.choose(o);
      o.evaluate = cpu_evaluator();
      again.adapters = add_lora(again.model.graph, o).adapters;
      fitted.fill(again.model.graph, again.adapters);
      REQUIRE(again.adapters.size() == trained.adapters.size());
      for (size_t i = 0; i < again.adapters.size(); ++i) {
        const LoraAdapter &a = again.adapters[i], &b = trained.adapters[i];
        CHECK(a.name == b.name);
        CHECK(a.scale == Catch::Approx(b.scale).epsilon(1e-12));
        for (const auto& [mine, theirs] :
             {std::pair{a.a, b.a}, std::pair{a.b, b.b}, std::pair{a.magnitude, b.magnitude}}) {
          if (mine < 0) continue;
          again.values[mine] = again.model.graph.value(mine).data;
          CHECK(again.values[mine].to_doubles() == trained.values.at(theirs).to_doubles());
        }
      }
      write_peft_folder(folder / "again",
                        peft_values(again.adapters, again.sites, again.values, {"gpt2", "", &*file.peft}));
      CHECK(read_file(folder / "again/adapter_model.safetensors").text() ==
            read_file(folder / "peft/adapter_model.safetensors").text());
      const auto config = [&](const char* which) {
        return nlohmann::json::parse(read_file(folder / which + "/adapter_config.json").text());
      };
      CHECK(config("again") == config("peft"));
    }
  }
}

TEST_CASE("names of PEFT modules: GPT-2 keeps c_attn as one module") {
  const Adapted gpt2 = adapted("gpt2.onnx", "r=2");
  const PeftAdapter peft = peft_values(gpt2.adapters, gpt2.sites, gpt2.values, {"gpt2", "", nullptr});
  size_t packed = 0;
  for (const PeftModule& m : peft.modules) {
    INFO(m.name);
    CHECK(m.name.find(".c_attn.") == std::string::npos);
    packed += m.name.ends_with(".c_attn");
    if (m.name.ends_with(".c_attn")) CHECK(m.rank() == 6);
  }
  CHECK(packed > 0);
}

TEST_CASE("E_LORA_EXPORT: adapter files cannot hold DoRA's magnitudes") {
  const Adapted dora = adapted("bert.onnx", "r=2,dora=true");
  expect_error(
      "E_LORA_EXPORT", "DoRA", [&] { slot_values(dora.adapters, dora.sites, dora.values); }, Exit::usage);
}

TEST_CASE("E_ADAPTER_FIT, E_ADAPTER_PATH: adapters that are incomplete or of another model") {
  const TempDir folder;
  const Adapted trained = adapted("bert.onnx", "r=3");
  const OnnxAdapter good = slot_values(trained.adapters, trained.sites, trained.values);
  const std::string file = folder / "a.onnx_adapter";
  const auto refused = [&](const std::string& part, const auto& change) {
    OnnxAdapter bad = good;
    change(bad.parameters);
    write_onnx_adapter(file, bad);
    expect_error("E_ADAPTER_FIT", part, [&] { output_with(import_model(kData + "bert.onnx"), file); });
  };
  using Parameters = std::vector<NamedTensor>;
  refused("has no lora_B", [](Parameters& p) { p.erase(p.begin() + 1); });
  refused("has no lora_A", [](Parameters& p) { p.erase(p.begin()); });
  refused("is not lora_A or lora_B", [](Parameters& p) { p[0].name = "weight"; });
  refused("has rank 3, lora_B", [](Parameters& p) { p[1].tensor = HostTensor::zeros(DType::f32, {2, 32}); });
  refused("has the shape", [](Parameters& p) { p[1].tensor = HostTensor::zeros(DType::f32, {3, 2, 16}); });
  refused("of the model has", [](Parameters& p) { p[0].tensor = HostTensor::zeros(DType::f32, {31, 3}); });
  refused("no linear map for 1 module", [](Parameters& p) {
    p[0].name = "other.lora_A.MatMul.weight";
    p[1].name = "other.lora_B.MatMul.weight";
  });
  refused("not finite", [](Parameters& p) {
    p[1].tensor =
        HostTensor::of<float>(p[1].tensor.dims(), std::vector<float>(static_cast<size_t>(p[1].tensor.numel()), NAN));
  });
  refused("holds no values", [](Parameters& p) { p.clear(); });
  for (const std::string& path : {folder / "missing.onnx_adapter", folder.path.string() + "/none"})
    expect_error(
        "E_ADAPTER_PATH", printable(path), [&] { read_adapter(path); }, Exit::usage);
}
