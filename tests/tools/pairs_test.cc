// Text pairs as two inputs of one encoder (bi-encoder), against PyTorch (tests/data/trainer/make_pairs.py).
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns random values, because a sinusoid would be taken for a table of positions.
std::string numbers(int n, int step, double scale) {
  std::string out;
  for (int i = 1; i <= n; ++i) {
    std::ostringstream number;
    number.precision(9);
    number << static_cast<float>(((i * i * 31 + i * step) % 97 / 97.0 - 0.5) * scale);
    out += (i > 1 ? "," : "") + number.str();
  }
  return out;
}

// Returns an encoder without a head, whose output is the hidden states of tokens.
std::string encoder(const TempDir& f, int rows = 12) {
  return save(f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids, int64[B,S] "
                             "attention_mask) => (float[B,S,4] last_hidden_state) <float[" +
                             std::to_string(rows) + ",4] e = {" + numbers(rows * 4, 17, 1) + "}, float[4,4] w = {" +
                             numbers(16, 29, 1.6) +
                             "}> { m = Cast<to = 1>(attention_mask) x = Gather(e, input_ids) p = MatMul(x, w) "
                             "last_hidden_state = Tanh(p) }"));
}

void write_tables(const TempDir& f) {
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  write_bytes(f / "pairs.csv",
              "a,b,c,score\nred car,the car runs,green,0.9\ngreen tree,tree,blue sky,0.4\nblue sky,sky blue runs "
              "red,tree runs,0.7\ncar,red red tree,sky,0.1\n");
}

std::vector<std::string> words(const TempDir& f, const std::string& model, const std::string& columns,
                               std::vector<std::string> more) {
  std::vector<std::string> w = {model, "--train", f / "pairs.csv", "--val", f / "pairs.csv", "--text_columns", columns,
                                "--vocab", f / "vocab.txt", "--output_dir", f / "run", "--quiet", "--batch_size", "2",
                                "--eval_batch_size", "4", "--epochs", "2", "--optimizer", "sgd", "--momentum", "0",
                                "--weight_decay", "0", "--lr", "0.05", "--lr_scheduler", "constant", "--dropout", "0",
                                "--max_grad_norm", "0", "--shuffle", "false", "--group_by_length", "false",
                                // The table's values have only 97 different magnitudes, so the importer would take the
                                // table for a constant.
                                "--trainable", "e"};
  w.insert(w.end(), more.begin(), more.end());
  return w;
}

}  // namespace

TEST_CASE("text columns of a loss on embeddings are sides of one encoder: PyTorch's losses and weights") {
  const nlohmann::json golden = nlohmann::json::parse(bytes_of(test_data("trainer/pairs.json")));
  struct Case {
    const char *name, *columns;
    std::vector<std::string> more;
  };
  for (const Case& c :
       {Case{"multiple_negatives", "a,b", {"--loss", "multiple_negatives"}},
        Case{"multiple_negatives", "a,b", {"--task", "retrieval"}}, Case{"hard_negatives", "a,b,c", {"--loss", "mnr"}},
        Case{"cosine_mse", "a,b", {"--loss", "cosine_mse", "--label_column", "score"}}}) {
    INFO(c.name);
    const TempDir f;
    write_tables(f);
    const Said s = run_verb(words(f, encoder(f), c.columns, c.more));
    INFO(s.fact << " / " << s.hint << s.err);
    REQUIRE(s.code == 0);
    const nlohmann::json& want = golden.at(c.name);
    const nlohmann::json run = nlohmann::json::parse(bytes_of(f / "run/run.json"));
    // tolerance: fp32 compared with fp64.
    const auto near = [](double x) { return Catch::Approx(x).epsilon(2e-5).margin(1e-6); };
    CHECK(run["initial_metrics"]["loss"].get<double>() == near(want["before"]));
    CHECK(run["final_metrics"]["loss"].get<double>() == near(want["after"]));
    const auto lines = json_lines(f / "run/metrics.jsonl");
    REQUIRE(lines.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(lines[i]["loss"].get<double>() == near(want["steps"][i]));
    const Imported out = import_model(f / "run/model.onnx");
    const std::vector<double> e = value(out.graph, "e").data.to_doubles();
    for (size_t i = 0; i < e.size(); ++i) CHECK(e[i] == near(want["e"][i].get<double>()));
    CHECK(value(out.graph, "sentence_embedding").dims.size() == 2);
    if (std::string(c.name) == "multiple_negatives") {
      CHECK(run["final_metrics"]["accuracy"].get<double>() == near(want["accuracy"]));
      CHECK(run["final_metrics"]["mrr"].get<double>() == near(want["mrr"]));
      CHECK(run["final_metrics"]["samples"] == 4);  // a sample is a pair
    }
    if (std::string(c.name) == "cosine_mse")
      CHECK(run["final_metrics"]["pearson"].get<double>() ==
            Catch::Approx(want["pearson"].get<double>()).epsilon(1e-4));
    // The exported file records its loss, columns and output.
    const Said again = run_verb({"eval", f / "run/model.onnx", "--val", f / "pairs.csv", "--vocab", f / "vocab.txt"});
    INFO(again.fact << again.err);
    REQUIRE(again.code == 0);
    CHECK(nlohmann::json::parse(again.out)["loss"].get<double>() == near(want["after"]));
  }
}

TEST_CASE("with a gradient cache accumulated pairs are one batch: PyTorch's losses and weights") {
  const nlohmann::json want = nlohmann::json::parse(bytes_of(test_data("trainer/pairs.json"))).at("whole_windows");
  const TempDir f;
  write_tables(f);
  std::vector<std::string> run = words(f, encoder(f), "a,b", {"--loss", "mnr", "--gradient_accumulation_steps", "2"});
  run.erase(std::find(run.begin(), run.end(), "--quiet"));
  const Said apart = run_verb(run);
  REQUIRE(apart.code == 0);
  CHECK(apart.err.find("--gradient_cache takes those of a step's 2 micro-batches") != std::string::npos);
  run.insert(run.end(), {"--gradient_cache", "--overwrite"});
  const Said s = run_verb(run);
  INFO(s.fact << " / " << s.hint << s.err);
  REQUIRE(s.code == 0);
  CHECK(s.err.find("negatives are") == std::string::npos);
  // tolerance: fp32 compared with fp64.
  const auto near = [](double x) { return Catch::Approx(x).epsilon(2e-5).margin(1e-6); };
  const auto lines = json_lines(f / "run/metrics.jsonl");
  REQUIRE(lines.size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(lines[i]["loss"].get<double>() == near(want["steps"][i]));
  const Imported out = import_model(f / "run/model.onnx");
  const std::vector<double> e = value(out.graph, "e").data.to_doubles();
  for (size_t i = 0; i < e.size(); ++i) CHECK(e[i] == near(want["e"][i].get<double>()));
}

TEST_CASE("a gradient cache is refused where it would do nothing, or what it cannot") {
  const TempDir f;
  write_tables(f);
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--gradient_cache", "--overwrite"});
    return run_verb(words(f, encoder(f), "a,b", more));
  };
  const Said each = run({"--loss", "cosine_mse", "--label_column", "score"});
  CHECK(each.code == 2);
  CHECK(each.fact.find("cosine_mse takes each by itself") != std::string::npos);
  std::vector<std::string> curved = words(f, encoder(f), "a,b", {"--loss", "mnr", "--gradient_cache"});
  *(std::find(curved.begin(), curved.end(), "--optimizer") + 1) = "sophia_h";
  curved.erase(std::find(curved.begin(), curved.end(), "--momentum"),
               std::find(curved.begin(), curved.end(), "--momentum") + 2);
  const Said s = run_verb(curved);
  CHECK(s.code == 4);
  CHECK(s.fact.find("sophia_h estimates curvature") != std::string::npos);
}

TEST_CASE("the number of sides must be the loss's, and a pair needs no shuffle flag") {
  const TempDir f;
  write_tables(f);
  CHECK(run_verb(words(f, encoder(f), "a,b", {"--loss", "triplet"})).id == "E_PAIRS");
  CHECK(run_verb(words(f, encoder(f), "a,b,c", {"--loss", "cosine_mse", "--label_column", "score"})).id == "E_PAIRS");
  const Said shuffled =
      run_verb(words(f, encoder(f), "a,b,c", {"--loss", "triplet", "--shuffle", "true", "--group_by_length", "true"}));
  INFO(shuffled.fact);
  CHECK(shuffled.code == 0);
}

TEST_CASE("a vocabulary larger than the embedding is refused, a smaller one is named once, padding is silent") {
  const TempDir f;
  write_tables(f);
  const auto run = [&](int rows) {
    return run_verb(words(f, encoder(f, rows), "a,b", {"--loss", "mnr", "--overwrite", "--epochs", "1"}));
  };
  CHECK(run(11).id == "E_VOCAB_SIZE");
  CHECK(run(11).code == 5);
  const std::string warned = run(13).err;
  const size_t at = warned.find("W_VOCAB_SIZE");
  REQUIRE(at != std::string::npos);
  CHECK(warned.find("W_VOCAB_SIZE", at + 1) == std::string::npos);
  CHECK(run(12).err.find("W_VOCAB") == std::string::npos);
  CHECK(run(64).err.find("W_VOCAB") == std::string::npos);
}
