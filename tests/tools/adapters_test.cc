// Runs with LoRA on quantized weights: what they print, train and export, and that they resume.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> words = {test_data("llm/llama-int4"),
                                    "--train",
                                    test_data("surgery/llm/lora.safetensors"),
                                    "--loss",
                                    "causal_lm",
                                    "--output_dir",
                                    out,
                                    "--batch_size",
                                    "2",
                                    "--lr",
                                    "0.01",
                                    "--lr_scheduler_type",
                                    "constant",
                                    "--threads",
                                    "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("adapters of quantized weights train, are exported as nodes, and resume bit by bit") {
  const TempDir f;
  const std::string text = "r=2,alpha=4,dora=true,lr_ratio=4,dropout=0.1";
  const Said whole = run_verb(training(f / "whole", {"--lora", text, "--max_steps", "6"}));
  INFO(whole.out << whole.err);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.out + whole.err,
             ContainsSubstring("on 14 maps: attention (q 2, k 2, v 2, o 2), mlp (gate 2, up 2, down 2)"));
  CHECK_THAT(whole.out + whole.err, ContainsSubstring("14 of 14 adapters cannot be merged"));
  const std::string out = bytes_of(f / "whole/model.onnx");
  for (const char* name :
       {"model.layers.0.attn.q_proj.MatMul.weight.lora_A", "model.layers.1.mlp.down_proj.MatMul.weight.lora_magnitude"})
    CHECK_THAT(out, ContainsSubstring(name));
  CHECK(run_verb(training(f / "half", {"--lora", text, "--max_steps", "3"})).code == 0);
  CHECK(run_verb(training(f / "half", {"--lora", text, "--max_steps", "6", "--resume", "auto"})).code == 0);
  CHECK(bytes_of(f / "half/model.onnx") == out);
  CHECK(bytes_of(f / "half/model.onnx.data") == bytes_of(f / "whole/model.onnx.data"));
}

TEST_CASE("a run that trains the adapted file again has the same maps") {
  // The file of the first run contains its adapters as nodes: for q, k and v of a packed linear layer, and for parts of
  // the MLP. A second run on this file must find the original maps, not the adapters.
  const auto [folder, forms] = GENERATE(std::pair("llama-int4", "merge"), std::pair("llama-int4", "keep"),
                                        std::pair("llama-int4", "slots"), std::pair("qwen3-fp32", "keep"));
  INFO(folder << " " << forms);
  const TempDir f;
  const std::string maps = "on 14 maps: attention (q 2, k 2, v 2, o 2), mlp (gate 2, up 2, down 2)";
  std::string model = test_data(std::string("llm/") + folder);
  for (const char* stage : {"first", "second", "third"}) {
    INFO(stage);
    std::vector<std::string> words = training(f / stage, {"--lora", "r=2", "--lora_export", forms, "--max_steps", "1"});
    words[0] = model;
    const Said said = run_verb(words);
    INFO(said.fact << said.err);
    REQUIRE(said.code == 0);
    CHECK_THAT(said.out + said.err, ContainsSubstring(maps));
    CHECK_THAT(said.out + said.err, !ContainsSubstring("guesses from their names"));
    model = f / stage + "/model.onnx";
  }
}
