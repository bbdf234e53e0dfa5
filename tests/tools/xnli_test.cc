// XNLI with PaddlePaddle's command line, from its files to the accuracy per language.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

std::string small_bert(const TempDir& f) {
  must_run({"create", "bert", "--model_head", "none", "--out", f / "bert.onnx", "--model_config",
            R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32})"});
  return f / "bert.onnx";
}

std::string vocabulary() { return source_root() + "/models/tweet_sentiment/vocab.txt"; }

std::vector<std::string> command(const TempDir& f, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--compat",
                                    "paddle",
                                    "--task_name",
                                    "XNLI",
                                    "--use_fp16=false",
                                    "--do_train",
                                    "true",
                                    "--do_val",
                                    "true",
                                    "--do_test",
                                    "true",
                                    "--batch_size",
                                    "8",
                                    "--in_tokens",
                                    "false",
                                    "--init_pretraining_params",
                                    f / "bert.onnx",
                                    "--data_dir",
                                    test_data("xnli"),
                                    "--vocab_path",
                                    vocabulary(),
                                    "--checkpoints",
                                    f / "run",
                                    "--save_steps",
                                    "1000",
                                    "--weight_decay",
                                    "0.01",
                                    "--warmup_proportion",
                                    "0.1",
                                    "--validation_steps",
                                    "2",
                                    "--epoch",
                                    "2",
                                    "--max_seq_len",
                                    "64",
                                    "--learning_rate",
                                    "1e-2",
                                    "--skip_steps",
                                    "1",
                                    "--verbose",
                                    "true"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json read_json(const std::string& path) { return json::parse(std::ifstream(path)); }

// Writes the rows of one language.
std::string of_language(const TempDir& f, const std::string& file, const std::string& language) {
  std::ifstream in(test_data("xnli/" + file));
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (out.empty() || line.starts_with(language + "\t")) out += line + "\n";
  }
  write_bytes(f / (language + ".tsv"), out);
  return f / (language + ".tsv");
}

}  // namespace

TEST_CASE("PaddlePaddle's command line trains on XNLI, tests, and tells accuracy by language") {
  const TempDir f;
  small_bert(f);
  const Said s = must_run(command(f, {}));
  const json test = read_json(f / "run/test_metrics.json"), run = read_json(f / "run/run.json");
  CHECK(s.out.find(test.dump()) != std::string::npos);
  REQUIRE(test["groups"]["language"].size() == 2);
  double right = 0;
  for (const char* language : {"de", "en"}) {
    INFO(language);
    const json& found = test["groups"]["language"][language];
    const Said alone = must_run({"eval", f / "run/model.onnx", "--val", of_language(f, "xnli.test.tsv", language),
                                 "--text_columns", "sentence1,sentence2", "--label_column", "gold_label", "--vocab",
                                 vocabulary(), "--max_seq_len", "64"});
    const json want = json::parse(alone.out);
    CHECK(found["samples"] == want["samples"]);
    for (const char* metric : {"accuracy", "macro_f1", "log_loss"})
      CHECK(found[metric].get<double>() == Catch::Approx(want[metric].get<double>()).epsilon(1e-4));
    right += found["accuracy"].get<double>() * found["samples"].get<double>();
    CHECK(s.err.find(language) != std::string::npos);
  }
  CHECK(test["accuracy"].get<double>() == Catch::Approx(right / test["samples"].get<double>()));
  CHECK(test["per_class"].size() == 3);  // the files write "contradictory" for the class "contradiction"
  CHECK(test["per_class"].contains("contradiction"));
  CHECK(run["final_metrics"]["groups"]["language"].contains("en"));
  CHECK(run["config"]["weight_decay"] == 0.01);
  CHECK(s.err.find("\"max_seq_len\": 64") != std::string::npos);  // printed because of --verbose true
  CHECK(s.err.find("--do_test: onnx-amp-finetune eval") != std::string::npos);
  CHECK(json_lines(f / "run/metrics.jsonl").size() == 6);  // 24 rows in batches of 8, two epochs
}

TEST_CASE("PaddlePaddle's batches of tokens train, and a test alone prints its metrics") {
  const TempDir f;
  small_bert(f);
  must_run(command(f, {"--in_tokens", "true", "--batch_size", "256", "--do_test", "false", "--verbose", "false"}));
  CHECK_FALSE(std::ifstream(f / "run/test_metrics.json").good());
  CHECK(read_json(f / "run/run.json")["config"]["in_tokens"] == true);
  CHECK(json_lines(f / "run/metrics.jsonl").size() > 6);
  const Said s = must_run(command(f, {"--init_checkpoint", f / "run", "--do_train", "false", "--do_val", "false"}));
  CHECK(json::parse(s.out)["samples"] == 24);
  const Said again = run_verb(command(f, {}));
  CHECK(again.id == "E_OUTPUT_EXISTS");
}

TEST_CASE("groups are told of a share held out, and of what --val has") {
  const TempDir f;
  small_bert(f);
  const std::string dev = test_data("xnli/xnli.dev.tsv");
  const std::vector<std::string> words = {f / "bert.onnx",
                                          "--train",
                                          dev,
                                          "--text_columns",
                                          "sentence1,sentence2",
                                          "--label_column",
                                          "gold_label",
                                          "--vocab",
                                          vocabulary(),
                                          "--max_steps",
                                          "1",
                                          "--output_dir",
                                          f / "run",
                                          "--eval_group_by"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run_verb(all);
  };
  REQUIRE(with({"language", "--val_split", "0.5"}).code == 0);
  int64_t samples = 0;
  const json run = read_json(f / "run/run.json");
  for (const auto& [name, values] : run["final_metrics"]["groups"]["language"].items())
    samples += values["samples"].get<int64_t>();
  CHECK(samples == 12);
  CHECK(with({"langage", "--val", dev, "--overwrite"}).hint.find("language") != std::string::npos);
  CHECK(with({"language", "--overwrite"}).hint.find("--val") != std::string::npos);
  const Said map = with({"language", "--val", dev, "--overwrite", "--label_map", "neutral"});
  CHECK(map.fact.find("--label_map neutral") != std::string::npos);
}
