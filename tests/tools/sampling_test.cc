// Training with a number of tokens per batch and with rows weighted by class, through the whole command line.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns a classifier whose logits are the mean of the tokens' rows in a trained table.
std::string classifier(const TempDir& f) {
  std::string zeros = "0";
  for (int i = 1; i < 24; ++i) zeros += ",0";
  return save(f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids, int64[B,S] "
                             "attention_mask) => (float[B,2] logits) <float[12,2] e = {" +
                             zeros +
                             "}, int64[1] one = {1}, int64[1] two = {2}> { c = Cast<to = 1>(attention_mask) m = "
                             "Unsqueeze(c, two) x = Gather(e, input_ids) y = "
                             "Mul(x, m) logits = ReduceSum(y, one) }"));
}

// Writes 36 texts of class "no" and 4 of class "yes". Each has 1 to 6 words, which are 3 to 8 tokens.
void write_texts(const TempDir& f) {
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  std::string rows = "text,label,score\n";
  for (int i = 0; i < 40; ++i) {
    std::string text = "red";
    for (int k = 0; k < i * 5 % 6; ++k) text += k % 2 ? " car" : " sky";
    rows += text + (i % 10 == 3 ? ",yes" : ",no") + ",0.5\n";
  }
  write_bytes(f / "texts.csv", rows);
}

std::vector<std::string> words(const TempDir& f, const std::vector<std::string>& more) {
  std::vector<std::string> w = {classifier(f),
                                "--train",
                                f / "texts.csv",
                                "--vocab",
                                f / "vocab.txt",
                                "--text_columns",
                                "text",
                                "--output_dir",
                                f / "run",
                                "--overwrite",
                                "--optimizer",
                                "sgd",
                                "--lr",
                                "0.1",
                                "--lr_scheduler",
                                "constant",
                                "--max_grad_norm",
                                "0",
                                "--dropout",
                                "0"};
  w.insert(w.end(), more.begin(), more.end());
  return w;
}

}  // namespace

TEST_CASE("--in_tokens: batches of as many rows as tokens allow, the same of two ranks") {
  const TempDir f;
  write_texts(f);
  const std::vector<std::string> by_tokens = {"--in_tokens", "--batch_size", "24", "--gradient_accumulation_steps",
                                              "2"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), by_tokens.begin(), by_tokens.end());
    const Said s = must_run(words(f, more));
    INFO(s.err);
    return json_lines(f / "run/metrics.jsonl");
  };
  const auto whole = run({"--epochs", "2", "--val_split", "0.2"});
  REQUIRE(!whole.empty());
  CHECK(whole.back()["epoch"].get<double>() == 2.0);
  const std::string weights = bytes_of(f / "run/model.onnx");
  // 32 rows of 3 to 8 tokens, in batches of 24: more steps than with 8 rows per batch, fewer than with 3.
  CHECK(whole.size() > 2 * 2);
  CHECK(whole.size() < 2 * 6);

  // Two replicas divide batches of the same number of tokens.
  const TempDir g;
  write_texts(g);
  must_run(words(g, {"--epochs", "2", "--val_split", "0.2", "--in_tokens", "--batch_size", "12", "--ranks", "2",
                     "--gradient_accumulation_steps", "2"}));
  const auto shared = json_lines(g / "run/metrics.jsonl");
  REQUIRE(shared.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i)
    CHECK(shared[i]["loss"].get<double>() == Catch::Approx(whole[i]["loss"].get<double>()).epsilon(1e-5));

  const TempDir h;
  write_texts(h);
  const std::vector<std::string> stop = {"--epochs",
                                         "2",
                                         "--val_split",
                                         "0.2",
                                         "--in_tokens",
                                         "--batch_size",
                                         "24",
                                         "--gradient_accumulation_steps",
                                         "2",
                                         "--save_steps",
                                         "1"};
  must_run(words(h, stop));
  CHECK(bytes_of(h / "run/model.onnx") == weights);  // saving checkpoints does not change the weights
}

TEST_CASE("--in_tokens is refused without texts, with a text that fits in no batch") {
  const TempDir f;
  write_texts(f);
  const Said small = run_verb(words(f, {"--in_tokens", "--batch_size", "7"}));
  CHECK(small.code == 2);
  CHECK(small.fact == "--batch_size 7 counts tokens (--in_tokens), the longest text has 8");
  write_bytes(f / "numbers.csv", "x,y\n1,2.5\n3,4.5\n5,6.5\n");
  const Said none =
      run_verb({save(f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (float[B,1] features) "
                                    "=> (float[B,1] y) <float[1,1] w = {1}> { y = MatMul(features, w) }")),
                "--train", f / "numbers.csv", "--target", "y", "--continuous", "x", "--in_tokens", "--batch_size", "2",
                "--output_dir", f / "run2"});
  INFO(none.fact);
  CHECK(none.code == 2);
  CHECK(none.fact.find("the training data has none") != std::string::npos);
}

TEST_CASE("--weighted_sampling learns the rare class as well as the other") {
  const TempDir f;
  write_texts(f);
  const std::vector<std::string> more = {"--batch_size", "8", "--epochs", "20", "--val", f / "texts.csv"};
  const auto share_of_yes = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), more.begin(), more.end());
    must_run(words(f, flags));
    must_run({"predict", f / "run", "--inputs", f / "texts.csv", "--out", f / "said.jsonl"});
    double sum = 0;
    const auto rows = json_lines(f / "said.jsonl");
    for (const auto& row : rows) sum += row["probabilities"]["yes"].get<double>();
    return sum / static_cast<double>(rows.size());
  };
  CHECK(share_of_yes({}) < 0.25);  // without weights, one row in ten is "yes"
  const double weighted = share_of_yes({"--weighted_sampling"});
  CHECK(weighted > 0.35);
  CHECK(weighted < 0.65);

  const Said ordered = run_verb(words(f, {"--weighted_sampling", "--shuffle", "false"}));
  CHECK(ordered.id == "E_WEIGHTED_SAMPLING");
  CHECK(ordered.code == 2);
  const Said numbers = run_verb(words(f, {"--weighted_sampling", "--label_column", "score", "--loss", "mse"}));
  INFO(numbers.fact);
  CHECK(numbers.id == "E_WEIGHTED_SAMPLING");
}
