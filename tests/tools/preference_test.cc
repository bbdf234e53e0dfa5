// Training on pairs of answers: data of TRL's forms, dpo with the model before training as its teacher, orpo and simpo.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Returns a folder of a decoder with a tokenizer.
std::string decoder(const TempDir& f) {
  fs::copy("tests/data/llm/qwen3-fp32", f / "model");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(std::string("tests/data/llm/llama-int4/") + file, f / (std::string("model/") + file));
  return f / "model";
}

json message(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }

// Writes rows of texts, and the same content as conversations in three and in two columns.
void write_rows(const TempDir& f) {
  std::string texts, three, two;
  for (const auto& [prompt, chosen, rejected] :
       {std::tuple("What is it?", "A river.", "The city of the north."),
        std::tuple("Where?", "There, in the south.", "No."), std::tuple("Who?", "The one.", "It is that and this.")}) {
    texts += json{{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}}.dump() + "\n";
    const json user = message("user", prompt), good = message("assistant", chosen),
               bad = message("assistant", rejected);
    three += json{{"prompt", {user}}, {"chosen", {good}}, {"rejected", {bad}}}.dump() + "\n";
    two += json{{"chosen", {user, good}}, {"rejected", {user, bad}}}.dump() + "\n";
  }
  write_bytes(f / "texts.jsonl", texts);
  write_bytes(f / "three.jsonl", three);
  write_bytes(f / "two.jsonl", two);
}

struct Run {
  std::vector<json> evals, steps;
};

std::vector<json> lines(const std::string& path) {
  std::vector<json> out;
  std::istringstream in(bytes_of(path));
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

Run trained(const TempDir& f, const std::string& rows, std::vector<std::string> more) {
  std::vector<std::string> words = {f / "model", "--train",      f / rows, "--val",       f / rows,       "--max_steps",
                                    "6",         "--batch_size", "2",      "--lr",        "0.003",        "--threads",
                                    "1",         "--seed",       "3",      "--overwrite", "--output_dir", f / "run"};
  words.insert(words.end(), more.begin(), more.end());
  must_run(words);
  return {lines(f / "run/eval.jsonl"), lines(f / "run/metrics.jsonl")};
}

}  // namespace

TEST_CASE("preferred answers become likelier than rejected ones", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f);
  write_rows(f);
  const std::string loss = GENERATE("dpo", "orpo", "simpo");
  INFO(loss);
  std::vector<std::string> words = {"--loss", loss};
  if (loss == "dpo") words.insert(words.end(), {"--teacher", model});
  const Run run = trained(f, "texts.jsonl", words);
  const json &first = run.evals.front(), &last = run.evals.back();
  // The teacher is the model before training, so all rewards are 0 in the first step.
  if (loss == "dpo") CHECK(std::abs(run.steps.front()["loss"].get<double>() - std::log(2.0)) < 1e-6);
  CHECK(last["loss"].get<double>() < first["loss"].get<double>());
  CHECK(last["margin"].get<double>() > first["margin"].get<double>());
  CHECK(last["accuracy"] == 1.0);
  // Padding and rows without labels do not count.
  words.insert(words.end(), {"--remove_padding", "false", "--skip_unlabeled", "false"});
  const Run plain = trained(f, "texts.jsonl", words);
  REQUIRE(plain.steps.size() == run.steps.size());
  for (size_t i = 0; i < run.steps.size(); ++i)
    CHECK(std::abs(plain.steps[i]["loss"].get<double>() - run.steps[i]["loss"].get<double>()) < 1e-4);
  CHECK_THAT(must_run({model, "--train", f / "texts.jsonl", "--loss", "orpo", "--check_data"}).out,
             ContainsSubstring("\"longest\":21"));
  must_run({"predict", f / "run", "--inputs", f / "texts.jsonl", "--out", f / "p.jsonl", "--tokenizer", model});
  const std::vector<json> predicted = lines(f / "p.jsonl");
  REQUIRE(predicted.size() == 3);
  for (const json& p : predicted) {
    CHECK(p["chosen_log_probability"].get<double>() < 0);
    CHECK(p["rejected_log_probability"].get<double>() < 0);
  }
  must_run({"generate", f / "run", "--prompt", "Who?", "--max_new_tokens", "2", "--tokenizer", model});
}

TEST_CASE("conversations in two and in three columns are the same pairs", "[preference]") {
  const TempDir f;
  decoder(f);
  write_rows(f);
  const Run two = trained(f, "two.jsonl", {"--loss", "simpo"}), three = trained(f, "three.jsonl", {"--loss", "simpo"});
  REQUIRE(two.steps.size() == three.steps.size());
  for (size_t i = 0; i < two.steps.size(); ++i) CHECK(two.steps[i]["loss"] == three.steps[i]["loss"]);
}

TEST_CASE("pairs of answers that cannot be read are refused by name", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f);
  write_rows(f);
  const auto said = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {model, "--train",      f / "texts.jsonl", "--max_steps",
                                      "1",   "--output_dir", f / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  };
  CHECK(said({"--loss", "orpo", "--text_columns", "chosen,rejected"}).id == "E_TEXT_COLUMNS");
  CHECK(said({"--loss", "orpo", "--text_columns", "chosen"}).id == "E_TEXT_COLUMNS");
  CHECK(said({"--loss", "orpo", "--packing", "wrapped"}).id == "E_PACKING");
}
