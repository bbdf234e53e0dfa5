// The reference model of dpo without `--teacher`: training equals training with the base model as the teacher, with
// every kind of adapter, dropout, packed weights, a second stage, and without adapters.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Copies a folder of a decoder, with a tokenizer, and writes pairs of answers. Returns the folder of the decoder.
std::string decoder(const TempDir& f, const std::string& name) {
  const std::string from = "tests/data/llm/", to = f / "model";
  fs::copy(from + name, to);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    if (!fs::exists(to + "/" + file)) fs::copy(from + "llama-int4/" + file, to + "/" + file);
  }
  std::string rows;
  for (const auto& [prompt, chosen, rejected] :
       {std::tuple("What is it?", "A river.", "The city of the north."),
        std::tuple("Where?", "There, in the south.", "No."), std::tuple("Who?", "The one.", "It is that and this.")})
    rows += json{{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}}.dump() + "\n";
  write_bytes(f / "pairs.jsonl", rows);
  return to;
}

struct Run {
  std::vector<double> losses;  // losses of the steps
  json last;                   // last metrics of the validation data
  std::string said;
};

Run trained(const TempDir& f, const std::vector<std::string>& more, const std::string& out = "run") {
  std::vector<std::string> words = {f / "model",
                                    "--train",
                                    f / "pairs.jsonl",
                                    "--val",
                                    f / "pairs.jsonl",
                                    "--loss",
                                    "dpo",
                                    "--max_steps",
                                    "4",
                                    "--batch_size",
                                    "2",
                                    "--lr",
                                    "0.003",
                                    "--threads",
                                    "1",
                                    "--seed",
                                    "3",
                                    "--overwrite",
                                    "--output_dir",
                                    f / out};
  words.insert(words.end(), more.begin(), more.end());
  Run run;
  const Said said = must_run(words);
  run.said = said.out + said.err;
  for (const json& step : json_lines(f / (out + "/metrics.jsonl"))) run.losses.push_back(step["loss"]);
  run.last = json_lines(f / (out + "/eval.jsonl")).back();
  return run;
}

void check_same(const Run& a, const Run& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) CHECK(std::abs(a.losses[i] - b.losses[i]) < 2e-6);
  for (const char* name : {"loss", "margin"})
    CHECK(std::abs(a.last[name].get<double>() - b.last[name].get<double>()) < 2e-6);
}

}  // namespace

TEST_CASE("dpo with adapters takes the model without them as its reference", "[preference]") {
  const TempDir f;
  const auto [name, lora] =
      GENERATE(table<std::string, std::string>({{"qwen3-fp32", "r=4"},
                                                {"qwen3-fp32", "r=4,dropout=0.3"},
                                                {"qwen3-fp32", "r=4,dora=true"},
                                                {"qwen3-fp32", "r=4,init=pissa"},
                                                {"qwen3-fp32", "r=4,targets=all-linear,targets=head"},
                                                {"llama-int4", "r=4,init=gaussian"}}));
  INFO(name << " " << lora);
  const std::string model = decoder(f, name);
  const Run own = trained(f, {"--lora", lora}), given = trained(f, {"--lora", lora, "--teacher", model});
  CHECK_THAT(own.said, ContainsSubstring("reference: this model without adapters"));
  CHECK(own.said.find("teacher: ") == std::string::npos);
  check_same(own, given);
  // At the start, the adapted model equals the reference, because adapters start at 0, or contain a part that was
  // subtracted from the weights. So the first loss is log 2.
  CHECK(std::abs(own.losses.front() - std::log(2.0)) < 1e-5);
  CHECK(own.last["margin"].get<double>() > 0);
}

TEST_CASE("weights that train beside adapters, and dropout, do not change the reference", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f, "qwen3-fp32");
  const std::vector<std::string> more =
      GENERATE(std::vector<std::string>{"--lora", "r=4", "--trainable", "*norm*"}, std::vector<std::string>{},
               std::vector<std::string>{"--lora", "r=4", "--dropout", "0.2"},
               std::vector<std::string>{"--lora", "r=4", "--use_bf16"},
               std::vector<std::string>{"--lora", "r=4", "--gradient_checkpointing"});
  std::vector<std::string> with = more;
  with.insert(with.end(), {"--teacher", model});
  const Run own = trained(f, more), given = trained(f, with);
  INFO(own.said);
  // A separate teacher model rounds its logits to 16 bits after other operations.
  if (!more.empty() && more.back() == "--use_bf16") {
    for (size_t i = 0; i < own.losses.size(); ++i) CHECK(std::abs(own.losses[i] - given.losses[i]) < 1e-2);
    return;
  }
  check_same(own, given);
  if (more.empty()) CHECK_THAT(own.said, ContainsSubstring("reference: this model before training"));
  if (more.empty() || more[2] == "--trainable") CHECK_THAT(own.said, ContainsSubstring("a copy of "));
}

TEST_CASE("a second stage compares with the adapter that it starts from, or with the base", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f, "qwen3-fp32");
  must_run({model, "--train", f / "pairs.jsonl", "--loss", "orpo", "--lora", "r=4", "--lora_export", "peft,merge",
            "--max_steps", "6", "--lr", "0.01", "--batch_size", "3", "--output_dir", f / "first"});
  const Run start = trained(f, {"--adapter", f / "first"}),
            base = trained(f, {"--adapter", f / "first", "--reference", "base"});
  CHECK_THAT(start.said, ContainsSubstring("with the adapter that training starts from"));
  CHECK_THAT(base.said, ContainsSubstring("reference: this model without adapters"));
  CHECK(std::abs(start.losses.front() - std::log(2.0)) < 1e-5);
  CHECK(std::abs(base.losses.front() - std::log(2.0)) > 1e-3);
  check_same(base, trained(f, {"--adapter", f / "first", "--teacher", model}));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy(model + "/" + file, f / (std::string("first/") + file), fs::copy_options::skip_existing);
  const Run merged = trained(f, {"--adapter", f / "first", "--teacher", f / "first/model.onnx"});
  REQUIRE(start.losses.size() == merged.losses.size());
  for (size_t i = 0; i < start.losses.size(); ++i) CHECK(std::abs(start.losses[i] - merged.losses[i]) < 1e-4);
}

TEST_CASE("a stopped run goes on with the same reference, and exports have no copy of it", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f, "qwen3-fp32");
  const std::vector<std::string> more = GENERATE(std::vector<std::string>{"--lora", "r=4"}, std::vector<std::string>{});
  const auto part = [&](const std::string& out, std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.begin(), {model, "--train", f / "pairs.jsonl", "--val", f / "pairs.jsonl", "--loss", "dpo",
                                 "--lr_scheduler", "constant", "--lr", "0.003", "--threads", "1", "--seed", "3",
                                 "--batch_size", "2", "--output_dir", f / out});
    must_run(words);
  };
  part("whole", {"--max_steps", "4"});
  part("parts", {"--max_steps", "2"});
  part("parts", {"--max_steps", "4", "--resume", "auto"});
  CHECK(bytes_of(f / "parts/model.onnx") == bytes_of(f / "whole/model.onnx"));
  CHECK(bytes_of(f / "whole/model.onnx").find("/reference") == std::string::npos);
  must_run({"export", f / "parts", "--out", f / "again/model.onnx"});
  CHECK(bytes_of(f / "again/model.onnx") == bytes_of(f / "whole/model.onnx"));
}

TEST_CASE("the memory estimate includes the reference", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f, "qwen3-fp32");
  // Returns the bytes of parameters, and of gradients.
  const auto bytes = [&](const char* loss) {
    const std::string said = must_run({model, "--train", f / "pairs.jsonl", "--batch_size", "2", "--dry_run", "--loss",
                                       loss, "--output_dir", f / "run"})
                                 .out;
    std::smatch m;
    REQUIRE(std::regex_search(said, m, std::regex("parameters ([0-9,]+) B, gradients ([0-9,]+) B")));
    const auto number = [](std::string text) {
      std::erase(text, ',');
      return std::stoll(text);
    };
    return std::pair{number(m[1]), number(m[2])};
  };
  const auto dpo = bytes("dpo"), orpo = bytes("orpo");
  CHECK(dpo.first == 2 * orpo.first);  // all weights are trained, so the reference needs a copy
  CHECK(dpo.second == orpo.second);
}

TEST_CASE("references that do not exist are refused by name", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f, "qwen3-fp32");
  const auto said = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {model,    "--train",        f / "pairs.jsonl",        "--max_steps",
                                      "1",      "--text_columns", "prompt,chosen,rejected", "--output_dir",
                                      f / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  };
  const Said bare = said({"--loss", "dpo", "--reference", "base"});
  CHECK(bare.id == "E_TEACHER");
  CHECK_THAT(bare.fact, ContainsSubstring("without adapters"));
  const Said eval = run_verb({"eval", model, "--val", f / "pairs.jsonl", "--loss", "dpo"});
  CHECK(eval.id == "E_TEACHER");
  CHECK_THAT(eval.hint, ContainsSubstring("before training"));
}
