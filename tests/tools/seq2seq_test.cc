// Text-to-text encoder-decoder models: a small T5 against transformers (tests/data/seq2seq/make_seq2seq.py).
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

json golden() { return json::parse(std::ifstream(test_data("seq2seq/golden.json"))); }
std::string model() { return test_data("seq2seq/model.onnx"); }

std::vector<std::string> with_data(std::vector<std::string> words, const std::string& flag) {
  const std::string prefix = golden()["prefix"];
  words.insert(words.end(),
               {"--task", "seq2seq", flag, test_data("seq2seq/rows.tsv"), "--text_columns", "source,target",
                "--source_prefix", prefix, "--max_seq_len", "24", "--max_target_length", "16"});
  return words;
}

std::vector<json> written(std::vector<std::string> words) {
  const json want = golden();
  for (const json& t : want["generated"]) words.insert(words.end(), {"--prompt", t["source"].get<std::string>()});
  std::vector<json> out;
  std::istringstream lines(must_run(words).out);
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("the loss of targets is PyTorch's") {
  const TempDir f;
  must_run(with_data({"predict", model(), "--out", f / "p.jsonl"}, "--inputs"));
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == 24);
  const json batches = golden()["batches"];
  for (size_t b = 0; b < 3; ++b) {
    double sum = 0, tokens = 0;
    for (size_t r = 8 * b; r < 8 * b + 8; ++r) {
      sum += rows[r]["loss"].get<double>() * rows[r]["tokens"].get<double>();
      tokens += rows[r]["tokens"].get<double>();
    }
    CHECK(std::abs(sum / tokens - batches[b]["loss"].get<double>()) <= 1e-5);
  }
}

TEST_CASE("greedily written targets are those of transformers") {
  const std::string prefix = golden()["prefix"];
  const std::vector<json> found = written(
      {"generate", model(), "--task", "seq2seq", "--source_prefix", prefix, "--max_new_tokens", "10", "--json"});
  const json want = golden()["generated"];
  REQUIRE(found.size() == want.size());
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<int64_t> ids = want[i]["ids"];
    ids.erase(ids.begin());  // removes the token with which every target begins
    CHECK(found[i]["ids"] == json(ids));
    CHECK(found[i]["text"] == want[i]["text"]);
  }
}

TEST_CASE("an encoder-decoder model trains from texts, and its file knows how it is fed") {
  const TempDir f;
  std::vector<std::string> words =
      with_data({model(), "--val", test_data("seq2seq/rows.tsv"), "--output_dir", f / "run", "--max_steps", "60",
                 "--lr", "3e-3", "--batch_size", "8", "--dropout", "0", "--device", "cpu"},
                "--train");
  const Said said = must_run(words);
  CHECK_THAT(said.err, Catch::Matchers::ContainsSubstring("targets begin with <pad>, config.json's"));
  const json run = json::parse(std::ifstream(f / "run/run.json"));
  const std::vector<json> evaluations = json_lines(f / "run/eval.jsonl");
  CHECK(evaluations.back()["loss"].get<double>() < 0.9 * evaluations.front()["loss"].get<double>());
  CHECK(evaluations.back()["accuracy"].get<double>() > 0.9);
  // Only the data are given: task, columns, prefix, lengths and start token are read from the file.
  std::filesystem::create_directories(f / "alone");
  std::filesystem::copy(f / "run/model.onnx", f / "alone/model.onnx");
  std::filesystem::copy(test_data("seq2seq/tokenizer.json"), f / "alone/tokenizer.json");
  must_run({"predict", f / "alone/model.onnx", "--inputs", test_data("seq2seq/rows.tsv"), "--out", f / "p.jsonl"});
  double sum = 0, tokens = 0;
  for (const json& row : json_lines(f / "p.jsonl")) {
    sum += row["loss"].get<double>() * row["tokens"].get<double>();
    tokens += row["tokens"].get<double>();
  }
  CHECK(std::abs(sum / tokens - evaluations.back()["loss"].get<double>()) <= 1e-4);
  const std::vector<json> found = written({"generate", f / "alone/model.onnx", "--max_new_tokens", "10", "--json"});
  CHECK(found[1]["text"] == "mat what then");
}

TEST_CASE("what seq2seq cannot do is told") {
  const TempDir f;
  const auto refused = [&](std::vector<std::string> more, const std::string& id, const std::string& part) {
    std::vector<std::string> words = with_data({model(), "--output_dir", f / "r", "--max_steps", "1"}, "--train");
    words.insert(words.end(), more.begin(), more.end());
    const Said s = run_verb(words);
    INFO(part);
    CHECK(s.id == id);
    CHECK_THAT(s.fact + " " + s.hint, Catch::Matchers::ContainsSubstring(part));
  };
  refused({"--text_columns", "source"}, "E_TEXT_COLUMNS", "SOURCE,TARGET");
  refused({"--packing", "wrapped"}, "E_PACKING", "pairs");
  refused({"--loss", "causal_lm"}, "E_TASK", "seq2seq");
  refused({"--decoder_start_token", "<nowhere>"}, "E_FLAG_VALUE", "no such token");
  refused({"--task", "language"}, "E_DATA_INPUT", "--task seq2seq");
  std::vector<std::string> words = with_data({test_data("zoo/minilm_embed_ts14/model.onnx"), "--output_dir", f / "r",
                                              "--max_steps", "1", "--tokenizer", test_data("seq2seq/tokenizer.json")},
                                             "--train");
  CHECK(run_verb(words).code != 0);
}
