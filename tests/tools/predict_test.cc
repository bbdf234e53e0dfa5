// predict on rows of text against onnxruntime on the exported files (tests/data/predict/make_predict_golden.py).
#include <algorithm>
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "data/table.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

std::string tokenizer_of(const std::string& task) {
  return test_data("data/tokenizers/") + (task == "language" ? "byte_level.json" : "word_piece.json");
}

std::string input_of(const std::string& task) {
  for (const auto& e : fs::directory_iterator(test_data("predict/" + task))) {
    if (e.path().stem() == "input") return e.path().string();
  }
  FAIL("no input for " << task);
  return {};
}

Said predict(const std::string& task, const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"predict",     test_data("predict/" + task + "/model.onnx"),
                                    "--tokenizer", tokenizer_of(task),
                                    "--out",       out,
                                    "--device",    "cpu",
                                    "--quiet"};
  // A second --inputs would add its rows to the same table.
  if (std::find(more.begin(), more.end(), "--inputs") == more.end())
    words.insert(words.end(), {"--inputs", input_of(task)});
  words.insert(words.end(), more.begin(), more.end());
  return must_run(words);
}

std::vector<Json> ordered_lines(const std::string& path) {
  std::vector<Json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

Json golden(const std::string& task) { return Json::parse(bytes_of(test_data("predict/" + task + "/golden.json"))); }

// True if the results are equal, or if numbers around 1 differ by the fp32 rounding of another order of operations.
bool same(const Json& got, const Json& want) {
  if (want.is_number_float() && got.is_number())
    return std::abs(got.get<double>() - want.get<double>()) <= 2e-5 * std::max(1.0, std::abs(want.get<double>()));
  if (got.size() != want.size() || got.is_structured() != want.is_structured()) return false;
  if (!want.is_structured()) return got == want;
  if (want.is_array()) {
    for (size_t i = 0; i < want.size(); ++i) {
      if (!same(got[i], want[i])) return false;
    }
    return true;
  }
  return std::all_of(want.items().begin(), want.items().end(),
                     [&](const auto& e) { return got.contains(e.key()) && same(got[e.key()], e.value()); });
}

}  // namespace

TEST_CASE("predictions for rows of text are onnxruntime's on the exported file", "[predict]") {
  const std::string task =
      GENERATE("classification", "regression", "multilabel", "token", "span", "retrieval", "language");
  INFO(task);
  const TempDir f;
  // Batch sizes: padding to the longest row of a batch must not change predictions.
  for (const char* rows : {"1", "4"}) {
    const Said said = predict(task, f / "p.jsonl", {"--eval_batch_size", rows});
    const std::vector<Json> lines = ordered_lines(f / "p.jsonl");
    const Json want = golden(task);
    REQUIRE(lines.size() == want.size());
    CHECK(Json::parse(said.out)["rows"] == want.size());
    CHECK(Json::parse(said.out)["task"] == task);
    for (size_t r = 0; r < lines.size(); ++r) {
      for (const auto& [name, value] : want[r].items()) {
        const std::string column = task == "classification" && name == "probability" ? "probability_2" : name;
        INFO("row " << r << ", " << column << ": " << lines[r].value(column, Json()) << ", wanted " << value);
        CHECK((lines[r].contains(column) && same(lines[r][column], value)));
      }
    }
  }
}

TEST_CASE("the input's rows are kept, in their order", "[predict]") {
  const TempDir f;
  predict("classification", f / "p.csv");
  const Table in = Table::read(input_of("classification")), out = Table::read(f / "p.csv");
  REQUIRE(out.rows() == in.rows());
  const std::vector<std::string> names = {"id",
                                          "review",
                                          "probability",
                                          "predicted_label",
                                          "probability_2",
                                          "probabilities_bad",
                                          "probabilities_good",
                                          "probabilities_so so"};
  CHECK(out.columns() == names);
  const Json want = golden("classification");
  for (int64_t r = 0; r < in.rows(); ++r) {
    for (size_t c = 0; c < in.columns().size(); ++c) CHECK(out.text(r, c) == in.text(r, c));
    CHECK(out.text(r, 3) == want[static_cast<size_t>(r)]["predicted_label"].get<std::string>());
  }
  predict("multilabel", f / "p.jsonl");
  const auto rows = ordered_lines(input_of("multilabel")), written = ordered_lines(f / "p.jsonl");
  REQUIRE(written.size() == rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const auto& [name, value] : rows[r].items()) CHECK(written[r][name].dump() == value.dump());
  }
}

TEST_CASE("a table of predictions is read again", "[predict]") {
  const TempDir f;
  for (const char* task : {"regression", "multilabel", "token", "span", "retrieval", "language"}) {
    INFO(task);
    predict(task, f / "p.jsonl");
    const auto lines = ordered_lines(f / "p.jsonl");
    for (const char* out : {"p.csv", "p.tsv"}) {
      predict(task, f / out);
      const Table t = Table::read(f / out);
      REQUIRE(t.rows() == static_cast<int64_t>(lines.size()));
      for (int64_t r = 0; r < t.rows(); ++r) {
        for (const auto& [name, value] : lines[static_cast<size_t>(r)].items()) {
          if (value.is_object() || value.is_array()) continue;
          const std::string want = value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
          CHECK(t.text(r, t.column(name)) == want);
        }
      }
    }
  }
  predict("token", f / "t.csv");
  const Table t = Table::read(f / "t.csv");
  CHECK(t.columns() == std::vector<std::string>{"words", "predicted_tags", "entities"});
  predict("multilabel", f / "m.csv");
  const Table m = Table::read(f / "m.csv");
  const Json want = golden("multilabel");
  for (int64_t r = 0; r < m.rows(); ++r) {
    std::string labels;
    for (const Json& l : want[static_cast<size_t>(r)]["predicted_labels"])
      labels += (labels.empty() ? "" : "|") + l.get<std::string>();
    CHECK(m.text(r, m.column("predicted_labels")) == labels);
  }
}

TEST_CASE("predictions in numbers", "[predict]") {
  const TempDir f;
  predict("retrieval", f / "p.npz");
  const auto tensors = read_tensor_file(f / "p.npz");
  REQUIRE(tensors.size() == 2);
  const Json want = golden("retrieval");
  const HostTensor* const query = find_tensor(tensors, "query_embedding");
  REQUIRE(query);
  CHECK(query->dims() == Dims{10, 12});
  for (int64_t r = 0; r < 10; ++r) {
    for (int64_t i = 0; i < 12; ++i)
      CHECK(std::abs(query->as<float>()[r * 12 + i] - want[r]["query_embedding"][i].get<double>()) < 2e-5);
  }
  predict("classification", f / "c.safetensors");
  const auto classes = read_tensor_file(f / "c.safetensors");
  CHECK(find_tensor(classes, "predicted_label")->dims() == Dims{10});
  CHECK(find_tensor(classes, "probabilities")->dims() == Dims{10, 3});
  const Said said = run_verb({"predict", test_data("predict/span/model.onnx"), "--inputs", input_of("span"),
                              "--tokenizer", tokenizer_of("span"), "--out", f / "p.xlsx"});
  CHECK(said.id == "E_FILE_TYPE");
  CHECK_FALSE(fs::exists(f / "p.xlsx"));
}

TEST_CASE("one side of pairs is embedded alone, words of a table are tagged, questions come from a table",
          "[predict]") {
  const TempDir f;
  write_bytes(f / "a.csv", "answer,x\nbad,1\n");
  predict("retrieval", f / "p.jsonl", {"--inputs", f / "a.csv", "--text_columns", "answer"});
  const Json pairs = golden("retrieval");
  const Table t = Table::read(input_of("retrieval"));
  for (int64_t r = 0; r < t.rows(); ++r) {
    if (t.text(r, 1) == "bad") CHECK(same(ordered_lines(f / "p.jsonl")[0]["embedding"], pairs[r]["answer_embedding"]));
  }
  write_bytes(f / "t.jsonl", "{\"w\": \"  so  happy today\"}\n{\"w\": [\"so\", \"happy\", \"today\"]}\n");
  predict("token", f / "p.jsonl", {"--inputs", f / "t.jsonl", "--text_columns", "w"});
  const auto tagged = ordered_lines(f / "p.jsonl");
  const Json alone = golden("token")[3];
  for (const Json& line : tagged) CHECK(line["predicted_tags"] == alone["predicted_tags"]);
  for (const Json& e : tagged[0]["entities"]) {
    const std::string text = "  so  happy today";
    CHECK(text.substr(e["begin"], e["end"].get<size_t>() - e["begin"].get<size_t>()) == e["text"].get<std::string>());
  }
  const Json squad = Json::parse(bytes_of(input_of("span")))["data"][0]["paragraphs"];
  std::string lines;
  for (const Json& p : squad) {
    for (const Json& q : p["qas"]) lines += Json{{"q", q["question"]}, {"t", p["context"]}}.dump() + "\n";
  }
  write_bytes(f / "q.jsonl", lines);
  predict("span", f / "p.jsonl", {"--inputs", f / "q.jsonl", "--text_columns", "q,t"});
  const auto answers = ordered_lines(f / "p.jsonl");
  const Json want = golden("span");
  REQUIRE(answers.size() == want.size());
  for (size_t r = 0; r < answers.size(); ++r) CHECK(answers[r]["predicted_answer"] == want[r]["predicted_answer"]);
}

TEST_CASE("a run's folder predicts with the tokenizer that it was trained with", "[predict]") {
  const TempDir f;
  fs::create_directory(f / "base");
  fs::copy_file(test_data("zoo/minilm_embed_ts14/model.onnx"), f / "base/model.onnx");
  write_bytes(f / "base/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n");
  write_bytes(f / "t.csv", "text,label\ngood day,yes\nbad day,no\ngood,yes\nbad,no\n");
  const std::vector<std::string> train = {f / "base/model.onnx",
                                          "--train",
                                          f / "t.csv",
                                          "--text_columns",
                                          "text",
                                          "--output_dir",
                                          f / "run",
                                          "--quiet",
                                          "--max_steps",
                                          "2",
                                          "--save_steps",
                                          "1",
                                          "--device",
                                          "cpu"};
  must_run(train);
  const auto predicted = [&](const std::string& model) {
    return run_verb({"predict", model, "--inputs", f / "t.csv", "--out", f / "p.csv", "--device", "cpu"});
  };
  REQUIRE(predicted(f / "run").code == 0);
  const std::string first = bytes_of(f / "p.csv");
  REQUIRE(predicted(f / "run/model.onnx").code == 0);
  CHECK(bytes_of(f / "p.csv") == first);
  CHECK(run_verb({"eval", f / "run", "--val", f / "t.csv", "--device", "cpu"}).code == 0);
  // Another vocabulary gives a warning, and an error for a resumed run.
  write_bytes(f / "base/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nbad\ngood\nday\n");
  CHECK(predicted(f / "run").err.find("W_TOKENIZER") != std::string::npos);
  std::vector<std::string> resumed = train;
  resumed.insert(resumed.end(), {"--resume", "auto"});
  CHECK(run_verb(resumed).id == "E_CKPT_MISMATCH");
  fs::remove(f / "base/vocab.txt");
  const Said gone = predicted(f / "run");
  CHECK(gone.code == 2);
  CHECK(gone.fact.find("--tokenizer") != std::string::npos);
  fs::create_directory(f / "none");
  CHECK(predicted(f / "none").id == "E_RUN");
}

TEST_CASE("what predict cannot read is refused as training refuses it", "[predict]") {
  const TempDir f;
  const auto refused = [&](const std::string& name, const std::string& bytes, std::vector<std::string> more = {}) {
    write_bytes(f / name, bytes);
    std::vector<std::string> words = {"predict",     test_data("predict/classification/model.onnx"),
                                      "--inputs",    f / name,
                                      "--tokenizer", tokenizer_of("classification"),
                                      "--out",       f / "p.csv"};
    words.insert(words.end(), more.begin(), more.end());
    const Said said = run_verb(words);
    CHECK_FALSE(fs::exists(f / "p.csv"));
    return said;
  };
  const Said column = refused("t.csv", "reviews,x\na,1\n");
  CHECK(column.code == 5);
  CHECK(column.id == "E_DATA_COLUMN");
  CHECK(column.hint.find("reviews") != std::string::npos);
  CHECK(refused("e.csv", "").id == "E_DATA_EMPTY");
  CHECK(refused("u.csv", "review\n\xff\n").id == "E_DATA_UTF8");
  CHECK(refused("t.xlsx", "x").id == "E_FILE_TYPE");
  for (const char* file : {"t.parquet", "t.arrow", "t.feather", "t.csv"}) {
    const Said columnar = refused(file, "PAR1.......PAR1");
    INFO(file << ": " << columnar.fact);
    CHECK(columnar.code == 5);
    CHECK(columnar.id == "E_DATA_COLUMNAR");
    CHECK(columnar.hint.find("CSV") != std::string::npos);
  }
  CHECK(refused("n.jsonl", "{\"review\": null}\n").id == "E_DATA_JSON");
  // A byte order mark and Windows line ends are not part of the text.
  write_bytes(f / "w.csv", "\xef\xbb\xbfreview\r\nbad\r\n");
  predict("classification", f / "w.jsonl", {"--inputs", f / "w.csv"});
  CHECK(ordered_lines(f / "w.jsonl")[0]["review"] == "bad");
  CHECK(same(ordered_lines(f / "w.jsonl")[0]["probabilities"], golden("classification")[8]["probabilities"]));
}
