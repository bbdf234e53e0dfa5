// Tests PEFT folders: those that PEFT wrote are read and written again with the same bytes, and everything that is not
// plain LoRA or DoRA is refused.
#include "importer/adapter/peft_folder.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>

#include "base/file.h"
#include "base/fs.h"
#include "base/safetensors.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kFolders = test_data("importer/adapters/");

nlohmann::json config_in(const std::string& folder) {
  return nlohmann::json::parse(read_file(folder + "/adapter_config.json").text());
}

// A folder with a config and tensors of the given shapes, filled with 0.5.
struct Made {
  nlohmann::json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}};
  std::map<std::string, Dims> shapes = {{"base_model.model.a.b.lora_A.weight", {2, 3}},
                                        {"base_model.model.a.b.lora_B.weight", {4, 2}}};
  TempDir folder;

  std::string write() const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, dims] : shapes)
      tensors.push_back({name, HostTensor::of<float>(dims, std::vector<float>(static_cast<size_t>(numel(dims)), .5f))});
    write_safetensors(folder / "adapter_model.safetensors", tensors);
    std::ofstream(folder / "adapter_config.json") << config;
    return folder.path.string();
  }
  void refused(const std::string& part) const {
    expect_error("E_PEFT", part, [&] { read_peft_folder(write()); });
  }
};

}  // namespace

TEST_CASE("folders that PEFT wrote are written again with the same bytes and settings") {
  for (const char* name : {"peft_phi3", "peft_llama-dora", "peft_llama-rslora"}) {
    INFO(name);
    const std::string theirs = kFolders + name;
    REQUIRE(is_peft_folder(theirs));
    const PeftAdapter adapter = read_peft_folder(theirs);
    const TempDir folder;
    write_peft_folder(folder / "out", adapter);
    CHECK(read_file(folder / "out/adapter_model.safetensors").text() ==
          read_file(theirs + "/adapter_model.safetensors").text());
    CHECK(config_in(folder / "out") == config_in(theirs));
  }
  CHECK(!is_peft_folder(kFolders));
}

TEST_CASE("modules, factors and magnitudes of a PEFT folder") {
  const PeftAdapter phi3 = read_peft_folder(kFolders + "peft_phi3");
  CHECK(phi3.modules.size() == 8);
  CHECK(phi3.modules[0].name == "model.layers.0.mlp.down_proj");
  CHECK(phi3.modules[0].a.dims() == Dims{8, 128});
  CHECK(phi3.modules[0].b.dims() == Dims{64, 8});
  CHECK(phi3.scale(phi3.modules[0]) == 2);
  const PeftAdapter rslora = read_peft_folder(kFolders + "peft_llama-rslora");
  CHECK(rslora.scale(rslora.modules[0]) == 8 / std::sqrt(4.0));
  const PeftAdapter dora = read_peft_folder(kFolders + "peft_llama-dora");
  for (const PeftModule& m : dora.modules) CHECK(m.magnitude.dims() == Dims{m.b.dims()[0]});
}

TEST_CASE("ranks and alphas of single modules") {
  Made made;
  for (const char* module : {"x.1.q", "x.10.q", "y.q"}) {
    made.shapes[cat("base_model.model.", module, ".lora_A.weight")] = {3, 5};
    made.shapes[cat("base_model.model.", module, ".lora_B.weight")] = {7, 3};
  }
  made.config["rank_pattern"] = {{"q", 3}};
  made.config["alpha_pattern"] = {{"^x\\.1\\d+\\.q", 9}, {"x.1.q", 12.5}};
  const PeftAdapter adapter = read_peft_folder(made.write());
  std::map<std::string, double> alphas;
  for (const PeftModule& m : adapter.modules) alphas[m.name] = m.alpha;
  CHECK(alphas == std::map<std::string, double>{{"a.b", 6}, {"x.1.q", 12.5}, {"x.10.q", 9}, {"y.q", 6}});
  const TempDir folder;
  write_peft_folder(folder / "out", adapter);
  const PeftAdapter again = read_peft_folder(folder / "out");
  REQUIRE(again.modules.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(again.modules[i].alpha == adapter.modules[i].alpha);
    CHECK(again.modules[i].rank() == adapter.modules[i].rank());
  }
}

TEST_CASE("patterns match as PEFT matches them") {
  // (pattern, name, result of re.match(rf"(.*\.)?({pattern})$", name))
  CHECK(peft_pattern_matches("q_proj", "model.layers.0.q_proj"));
  CHECK(!peft_pattern_matches("proj", "model.layers.0.q_proj"));
  CHECK(peft_pattern_matches("layers.*q_proj", "model.layers.0.q_proj"));
  CHECK(!peft_pattern_matches("^layers.*", "model.layers.0.q_proj"));
  CHECK(peft_pattern_matches("^model.layers.0.q_proj$", "model.layers.0.q_proj"));
  CHECK(!peft_pattern_matches("layers\\.1\\.q", "model.layers.11.q"));
  CHECK(peft_pattern_matches("layers\\.1+\\.q", "model.layers.11.q"));
  CHECK(!peft_pattern_matches("layers\\.1+\\.q", "model.layers..q"));
  CHECK(peft_pattern_matches("layers\\.1?2\\.\\w*", "model.layers.2.q_proj"));
  CHECK(peft_pattern_matches(std::string(2000, '*').insert(0, "a").substr(0, 2), "b.aaa"));
  std::string slow;
  for (int i = 0; i < 2000; ++i) slow += "a*";
  CHECK(!peft_pattern_matches(slow + "b", std::string(2000, 'a')));
  for (const char* pattern : {"(q|k)_proj", "[qk]_proj", "q{2}", "a**", "*a", "a\\", "\\s"})
    expect_error("E_PEFT", "is not read", [&] { peft_pattern_matches(pattern, "q_proj"); });
}

TEST_CASE("E_PEFT: adapters that are more or less than LoRA are refused by what they hold") {
  const auto with = [](const char* key, const nlohmann::json& value, const std::string& part) {
    INFO(key);
    Made made;
    made.config[key] = value;
    made.refused(part);
  };
  with("peft_type", "IA3", "peft_type");
  with("bias", "all", "bias is");
  with("modules_to_save", {"lm_head"}, "'modules_to_save' is set");
  with("layer_replication", {{0, 4}}, "'layer_replication' is set");
  with("alora_invocation_tokens", {1}, "'alora_invocation_tokens' is set");
  with("init_lora_weights", "pissa_niter_4", "changes the weights of the base");
  with("r", 4, "adapter_config.json says 4");
  with("r", "2", "'r' is not");
  with("lora_alpha", 0, "'lora_alpha' is not");
  with("use_dora", true, "no lora_magnitude_vector");
  with("use_dora", "yes", "not true or false");
  with("rank_pattern", {{"b", 3}}, "has rank 2");
  with("rank_pattern", 3, "not an object");
  with("alpha_pattern", {{"b", -1}}, "not a positive number");

  const auto shaped = [](const std::map<std::string, Dims>& more, const char* left_out, const std::string& part) {
    INFO(part);
    Made made;
    for (const auto& [name, dims] : more) made.shapes[name] = dims;
    made.shapes.erase(left_out);
    made.refused(part);
  };
  shaped({}, "base_model.model.a.b.lora_B.weight", "has no lora_B");
  shaped({}, "base_model.model.a.b.lora_A.weight", "has no lora_A");
  shaped({{"base_model.model.a.b.lora_B.weight", {4, 3}}}, "", "lora_B [4,3] has rank 3");
  shaped({{"base_model.model.a.b.lora_A.weight", {2, 3, 1, 1}}}, "", "not those of a linear map");
  shaped({{"base_model.model.lm_head.weight", {4, 3}}}, "", "'base_model.model.lm_head.weight' is not lora_A");
  shaped({{"base_model.model.emb.lora_embedding_A", {4, 3}}}, "", "lora_embedding_A");
  shaped({{"base_model.model.a.b.lora_magnitude_vector", {4}}}, "", "use_dora is not true");
  shaped({{"base_model.model.a.b.lora_A.default.weight", {2, 3}}}, "", "occurs twice");

  Made empty;
  empty.shapes.clear();
  empty.refused("no tensors");
  const TempDir folder;
  std::ofstream(folder / "adapter_config.json") << Made().config;
  expect_error("E_PEFT", "no adapter_model.safetensors", [&] { read_peft_folder(folder.path.string()); });
  std::ofstream(folder / "adapter_config.json") << "[";
  expect_error("E_PEFT", "not a JSON object", [&] { read_peft_folder(folder.path.string()); });
}
