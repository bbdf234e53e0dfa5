// Questions without an answer, n-best lists and masked-token predictions, through the whole command line.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

// Returns a model with a table that stores two trained numbers per token: its start and end logit.
std::string reader(const TempDir& f) {
  std::string numbers;
  for (int i = 0; i < 24; ++i) numbers += (i ? "," : "") + std::to_string((i * 7 % 5) * 0.01);
  return save(f,
              test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids, int64[B,S] "
                          "attention_mask) => (float[B,S] start_logits, float[B,S] end_logits) <float[12,2] e = {" +
                          numbers +
                          "}, int64[1] last = {-1}> { m = Cast<to = 1>(attention_mask) x = Gather(e, input_ids) a, b "
                          "= Split<axis = 2>(x) p = Squeeze(a, last) q = Squeeze(b, last) start_logits = Mul(p, m) "
                          "end_logits = Mul(q, m) }"));
}

void write_questions(const TempDir& f) {
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  write_bytes(f / "squad.json", R"({"version": "v2.0", "data": [{"paragraphs": [
    {"context": "red car runs", "qas": [
      {"id": "a", "question": "car", "is_impossible": false, "answers": [{"text": "red", "answer_start": 0}]}]},
    {"context": "green tree runs", "qas": [
      {"id": "b", "question": "tree", "is_impossible": true, "answers": [],
       "plausible_answers": [{"text": "tree", "answer_start": 6}]}]},
    {"context": "blue sky red", "qas": [
      {"id": "c", "question": "sky", "is_impossible": false, "answers": [{"text": "red", "answer_start": 9}]}]}]}]})");
}

}  // namespace

TEST_CASE("SQuAD 2.0 from training to predictions: no answer, thresholds, n-best") {
  const TempDir f;
  write_questions(f);
  const std::vector<std::string> words = {reader(f),
                                          "--task",
                                          "span",
                                          "--train",
                                          f / "squad.json",
                                          "--val",
                                          f / "squad.json",
                                          "--vocab",
                                          f / "vocab.txt",
                                          "--output_dir",
                                          f / "run",
                                          "--overwrite",
                                          "--optimizer",
                                          "sgd",
                                          "--lr",
                                          "1",
                                          "--lr_scheduler",
                                          "constant",
                                          "--max_grad_norm",
                                          "0",
                                          "--epochs",
                                          "30",
                                          "--batch_size",
                                          "3",
                                          "--dropout",
                                          "0"};
  const Said without = run_verb(words);
  CHECK(without.code == 5);
  CHECK(without.id == "E_DATA_LABEL");
  CHECK(without.fact.find("question 'b' has no answer") != std::string::npos);
  CHECK(without.hint.find("--version_2_with_negative") != std::string::npos);

  std::vector<std::string> with = words;
  with.insert(with.end(), {"--version_2_with_negative", "--require", "HasAns_exact>=1", "--require", "NoAns_f1>=1"});
  const Said trained = run_verb(with);
  INFO(trained.fact << trained.err);
  REQUIRE(trained.code == 0);
  const json run = json::parse(bytes_of(f / "run/run.json"));
  CHECK(run["final_metrics"]["exact_match"] == 1);
  CHECK(run["final_metrics"]["HasAns_total"] == 2);
  CHECK(run["final_metrics"]["NoAns_total"] == 1);
  CHECK(run["final_metrics"]["best_f1"] == 1);

  // The model's metadata records that questions may have no answer.
  const json eval =
      json::parse(must_run({"eval", f / "run/model.onnx", "--val", f / "squad.json", "--vocab", f / "vocab.txt"}).out);
  CHECK(eval["NoAns_exact"] == 1);
  const json strict =
      json::parse(must_run({"eval", f / "run", "--val", f / "squad.json", "--null_score_diff_threshold", "1000"}).out);
  CHECK(strict["NoAns_exact"] == 0);
  CHECK(strict["HasAns_exact"] == 1);

  must_run({"predict", f / "run", "--inputs", f / "squad.json", "--out", f / "p.jsonl", "--n_best_size", "3"});
  const auto rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["predicted_answer"] == "red");
  CHECK(rows[1]["predicted_answer"] == "");
  CHECK(rows[1]["null_score_diff"].get<double>() > 0);
  CHECK(rows[2]["predicted_answer"] == "red");
  CHECK(rows[2]["answer_begin"] == 9);
  for (const json& row : rows) {
    REQUIRE(row["n_best"].size() >= 3);
    double sum = 0;
    for (const json& b : row["n_best"]) sum += b["probability"].get<double>();
    CHECK(sum == Catch::Approx(1));
  }
  CHECK(rows[1]["n_best"][0]["text"] == "");
  must_run({"predict", f / "run", "--inputs", f / "squad.json", "--out", f / "p.csv", "--null_score_diff_threshold",
            "1000"});
  CHECK(bytes_of(f / "p.csv").find("n_best") == std::string::npos);
  CHECK(bytes_of(f / "p.csv").find("null_score_diff") != std::string::npos);
}

TEST_CASE("masks are filled as transformers' fill-mask pipeline fills them", "[predict]") {
  const std::string folder = test_data("predict/fill_mask/");
  const json golden = json::parse(bytes_of(folder + "golden.json"));
  const TempDir f;
  for (const char* rows : {"1", "8"}) {  // batch sizes: padding to the longest row of a batch must not change answers
    must_run({"predict", folder + "model.onnx", "--loss", "masked_lm", "--text_columns", "text", "--inputs",
              folder + "input.csv", "--tokenizer", test_data("data/tokenizers/word_piece.json"), "--out", f / "p.jsonl",
              "--top_k", std::to_string(golden["top_k"].get<int>()), "--eval_batch_size", rows, "--device", "cpu"});
    const auto lines = json_lines(f / "p.jsonl");
    REQUIRE(lines.size() == golden["rows"].size());
    for (size_t r = 0; r < lines.size(); ++r) {
      INFO("row " << r << ": " << lines[r].dump());
      const json& want = golden["rows"][r];
      CHECK(lines[r]["filled"] == want["filled"]);
      REQUIRE(lines[r]["masks"].size() == want["masks"].size());
      for (size_t m = 0; m < want["masks"].size(); ++m) {
        CHECK(lines[r]["predicted_tokens"][m] == want["masks"][m][0]["token_str"]);
        REQUIRE(lines[r]["masks"][m].size() == want["masks"][m].size());
        for (size_t c = 0; c < want["masks"][m].size(); ++c) {
          const json &got = lines[r]["masks"][m][c], &w = want["masks"][m][c];
          CHECK(got["token"] == w["token"]);
          CHECK(got["token_str"] == w["token_str"]);
          CHECK(got["sequence"] == w["sequence"]);
          // The reference computes in fp32 in another order.
          CHECK(got["score"].get<double>() == Catch::Approx(w["score"].get<double>()).epsilon(2e-5));
        }
      }
    }
  }
}
