// Training with kto through the command line: TRL's data forms, desirable answers become likelier, and what cannot be
// read is refused by name.
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

struct Answer {
  const char *prompt, *completion;
  bool label;
};
const std::vector<Answer> kAnswers = {{"What is it?", "A river.", true},
                                      {"What is it?", "The city of the north.", false},
                                      {"Where?", "There, in the south.", true},
                                      {"Where?", "No.", false},
                                      {"Who?", "The one.", true}};

json message(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }
json texts_of(const Answer& a) { return {{"prompt", a.prompt}, {"completion", a.completion}, {"label", a.label}}; }

void write_rows(const std::string& path, const std::vector<json>& rows) {
  std::string text;
  for (const json& row : rows) text += row.dump() + "\n";
  write_bytes(path, text);
}

// Returns a folder of a decoder with a tokenizer, and writes the answers as texts and as conversations.
std::string decoder(const TempDir& f) {
  fs::copy("tests/data/llm/qwen3-fp32", f / "model");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(std::string("tests/data/llm/llama-int4/") + file, f / (std::string("model/") + file));
  std::vector<json> texts, chats;
  for (const Answer& a : kAnswers) {
    texts.push_back(texts_of(a));
    chats.push_back({{"prompt", {message("user", a.prompt)}},
                     {"completion", {message("assistant", a.completion)}},
                     {"label", a.label}});
  }
  write_rows(f / "texts.jsonl", texts);
  write_rows(f / "chats.jsonl", chats);
  return f / "model";
}

struct Run {
  std::vector<json> evals;
  std::vector<double> losses;
  std::string said;
};

Run trained(const TempDir& f, const std::string& rows, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {f / "model",    "--train",     f / rows,
                                    "--val",        f / rows,      "--loss",
                                    "kto,beta=0.5", "--max_steps", "6",
                                    "--batch_size", "3",           "--lr",
                                    "0.003",        "--threads",   "1",
                                    "--seed",       "3",           "--lora",
                                    "r=4",          "--overwrite", "--output_dir",
                                    f / "run"};
  words.insert(words.end(), more.begin(), more.end());
  const Said said = must_run(words);
  Run run;
  run.said = said.out + said.err;
  run.evals = json_lines(f / "run/eval.jsonl");
  for (const json& step : json_lines(f / "run/metrics.jsonl")) run.losses.push_back(step["loss"]);
  return run;
}

void check_same(const Run& a, const Run& b, double tolerance) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) CHECK(std::abs(a.losses[i] - b.losses[i]) < tolerance);
}

}  // namespace

TEST_CASE("desirable answers become likelier than others", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f);
  const std::string rows = GENERATE("texts.jsonl", "chats.jsonl");
  INFO(rows);
  const Run run = trained(f, rows);
  // The reference is the model before training: all rewards are 0, and so is z0.
  CHECK(std::abs(run.losses.front() - 0.5) < 1e-6);
  CHECK_THAT(run.said, ContainsSubstring("`task`") || ContainsSubstring("--task unpaired_preference"));
  CHECK_THAT(run.said, ContainsSubstring("data: 3 desirable and 2 other answers"));
  CHECK_THAT(run.said, ContainsSubstring("0.667 to 0.889 would"));
  CHECK_THAT(run.said, ContainsSubstring("reference: this model without adapters"));
  CHECK(run.evals.back()["loss"].get<double>() < run.evals.front()["loss"].get<double>() - 0.01);
  CHECK(run.evals.back()["margin"].get<double>() > 0.1);
  CHECK(run.evals.back()["kl"].get<double>() >= 0);
  // Padding, rows without labels and a teacher (a second copy of the model) do not change the result.
  check_same(run, trained(f, rows, {"--remove_padding", "false", "--skip_unlabeled", "false"}), 1e-4);
  check_same(run, trained(f, rows, {"--teacher", model}), 2e-6);
}

TEST_CASE("a model of kto is exported as a language model of the same columns", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f);
  trained(f, "texts.jsonl");
  const Said eval = must_run({"eval", f / "run", "--val", f / "texts.jsonl", "--tokenizer", model});
  CHECK_THAT(eval.out, ContainsSubstring("perplexity"));
  must_run({"predict", f / "run", "--inputs", f / "texts.jsonl", "--out", f / "p.jsonl", "--tokenizer", model});
  CHECK(json_lines(f / "p.jsonl").size() == kAnswers.size());
  must_run({"generate", f / "run", "--prompt", "Who?", "--max_new_tokens", "2", "--tokenizer", model});
}

TEST_CASE("pairs of answers are two marked answers each", "[preference]") {
  const TempDir f;
  decoder(f);
  std::vector<json> pairs, chats, marked;
  for (size_t i = 0; i + 1 < kAnswers.size(); i += 2) {
    const Answer &good = kAnswers[i], &bad = kAnswers[i + 1];
    pairs.push_back({{"prompt", good.prompt}, {"chosen", good.completion}, {"rejected", bad.completion}});
    const json user = message("user", good.prompt);
    chats.push_back({{"chosen", {user, message("assistant", good.completion)}},
                     {"rejected", {user, message("assistant", bad.completion)}}});
    for (const Answer& a : {good, bad}) marked.push_back(texts_of(a));
  }
  write_rows(f / "pairs.jsonl", pairs);
  write_rows(f / "chat_pairs.jsonl", chats);
  write_rows(f / "marked.jsonl", marked);
  check_same(trained(f, "pairs.jsonl"), trained(f, "marked.jsonl"), 1e-9);
  CHECK(std::abs(trained(f, "chat_pairs.jsonl").losses.front() - 0.5) < 1e-6);
}

TEST_CASE("micro-batches of kto, of one answer too, and marks of one kind train", "[preference]") {
  const TempDir f;
  decoder(f);
  const Run one = trained(f, "texts.jsonl", {"--batch_size", "1", "--gradient_accumulation_steps", "3"});
  CHECK(std::abs(one.losses.front() - 0.5) < 1e-6);
  CHECK(one.evals.back()["margin"].get<double>() > 0);
  std::vector<json> good;
  for (const Answer& a : kAnswers) {
    if (a.label) good.push_back(texts_of(a));
  }
  write_rows(f / "good.jsonl", good);
  const Run run = trained(f, "good.jsonl");
  CHECK_THAT(run.said, ContainsSubstring("3 desirable and 0 other answers"));
  CHECK(run.evals.back()["margin"].is_null());
  CHECK(run.evals.back()["accuracy"] == 1.0);
  CHECK(std::isfinite(run.losses.back()));
}

TEST_CASE("marks and columns that cannot be read are refused by name", "[preference]") {
  const TempDir f;
  const std::string model = decoder(f);
  const auto said = [&](const std::vector<json>& rows, std::vector<std::string> more = {}) {
    write_rows(f / "rows.jsonl", rows);
    std::vector<std::string> words = {model,     "--train",    f / "rows.jsonl", "--loss", "kto",
                                      "--lora",  "r=4",        "--max_steps",    "1",      "--output_dir",
                                      f / "run", "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  };
  const json good = texts_of(kAnswers[0]), bad = texts_of(kAnswers[1]);
  json none = good, word = good, empty = good;
  none["label"] = nullptr;
  word["label"] = "fine";
  empty["completion"] = "";
  const Said absent = said({good, none});
  CHECK(absent.id == "E_DATA_LABEL");
  CHECK_THAT(absent.fact, ContainsSubstring("rows.jsonl:2") && ContainsSubstring("has no mark in column 'label'"));
  const Said other = said({good, word, bad});
  CHECK(other.id == "E_DATA_LABEL");
  CHECK_THAT(other.fact, ContainsSubstring("'fine' is neither true nor false"));
  CHECK(said({good, word, bad}, {"--label_map", "fine=true"}).code == 0);
  CHECK(said({good, word, bad}, {"--skip_bad_rows", "1"}).code == 0);
  json bare = good;
  bare.erase("label");
  const Said unmarked = said({bare, bare});
  CHECK(unmarked.id == "E_DATA_COLUMN");
  CHECK_THAT(unmarked.fact, ContainsSubstring("label"));
  CHECK(said({bare, bare}, {"--text_columns", "prompt,completion"}).id == "E_DATA_COLUMN");
  CHECK(said({good, bad}, {"--text_columns", "completion"}).id == "E_TEXT_COLUMNS");
  CHECK(said({good, bad}, {"--packing", "wrapped"}).id == "E_PACKING");
  const Said single = said({good});
  CHECK(single.id == "E_DATA_PAIRS");
  CHECK_THAT(single.fact, ContainsSubstring("the data has one"));
  CHECK(said({good, bad}, {"--append_eos", "false"}).code == 0);
  CHECK(said({empty, empty}, {"--append_eos", "false"}).id == "E_DATA_EMPTY");
  const Said eval = run_verb({"eval", model, "--val", f / "rows.jsonl", "--loss", "kto"});
  CHECK(eval.id == "E_TEACHER");
  // `--check_data` lists all bad rows, not only the first.
  write_rows(f / "rows.jsonl", {good, none, word});
  const Said checked = run_verb({model, "--train", f / "rows.jsonl", "--loss", "kto", "--check_data"});
  CHECK_THAT(checked.out, ContainsSubstring("has no mark") && ContainsSubstring("neither true nor false"));
}
