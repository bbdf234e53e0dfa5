// --skip_bad_rows: a run on data with bad rows equals the run on the same data without them, and lists them.
#include <catch2/catch_all.hpp>
#include <functional>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// Returns a classifier whose logits are the sum of the tokens' rows in a learned table.
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

// Returns row i of 40 texts. format: "csv" or "jsonl".
std::string row(int i, const std::string& format) {
  std::string text = "red";
  for (int k = 0; k < i * 5 % 6; ++k) text += k % 2 ? " car" : " sky";
  const std::string label = i % 3 ? "no" : "yes";
  if (format == "csv") return text + "," + label + "\n";
  return R"({"text": ")" + text + R"(", "label": ")" + label + "\"}\n";
}

// Writes clean.FORMAT and bad.FORMAT. In bad.FORMAT, every fourth row is an additional bad row.
void write_files(const TempDir& f, const std::string& format, const Words& bad) {
  const std::string header = format == "csv" ? "text,label\n" : "";
  std::string clean = header, dirty = header;
  for (int i = 0; i < 40; ++i) {
    clean += row(i, format);
    dirty += row(i, format);
    if (i % 4 == 3 && static_cast<size_t>(i / 4) < bad.size()) dirty += bad[static_cast<size_t>(i / 4)] + "\n";
  }
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  write_bytes(f / "clean." + format, clean);
  write_bytes(f / "bad." + format, dirty);
}

Words words(const TempDir& f, const std::string& data, const std::string& run, const Words& more = {}) {
  Words w = {classifier(f),   "--train",        f / data, "--val",    f / data, "--vocab",
             f / "vocab.txt", "--text_columns", "text",   "--lr",     "0.1",    "--lr_scheduler",
             "constant",      "--batch_size",   "4",      "--device", "cpu",    "--labels",
             "no,yes",        "--output_dir",   f / run,  "--quiet"};
  w.insert(w.end(), more.begin(), more.end());
  return w;
}

json run_of(const std::string& folder) { return json::parse(bytes_of(folder + "/run.json")); }

}  // namespace

TEST_CASE("a run that skips bad rows equals the run without them", "[skip]") {
  const TempDir f;
  const auto equal = [&](const std::string& format, const Words& bad, const std::string& id, const Words& reasons) {
    INFO(format);
    write_files(f, format, bad);
    const std::string clean = "clean." + format, dirty = "bad." + format, n = std::to_string(bad.size());
    must_run(words(f, clean, "clean", {"--overwrite", "--max_steps", "9"}));
    const Said said = must_run(words(f, dirty, "bad", {"--overwrite", "--max_steps", "9", "--skip_bad_rows", n}));
    CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
    CHECK(run_of(f / "bad").at("final_metrics") == run_of(f / "clean").at("final_metrics"));
    CHECK_THAT(said.err, ContainsSubstring(n + " of " + std::to_string(40 + bad.size()) + " rows are skipped"));
    const json skipped = run_of(f / "bad").at("skipped_rows");
    REQUIRE(skipped.size() == 2 * bad.size());  // the bad rows of --train and those of --val
    std::set<int64_t> lines;
    std::string all;
    for (size_t i = 0; i < bad.size(); ++i) {
      lines.insert(skipped[i].at("line").get<int64_t>());
      all += skipped[i].at("reason").get<std::string>() + "\n";
      CHECK(skipped[i].at("file") == f / dirty);
    }
    std::set<int64_t> want;
    for (size_t i = 0; i < bad.size(); ++i) want.insert(static_cast<int64_t>(5 * i) + 5 + (format == "csv"));
    CHECK(lines == want);
    for (const std::string& reason : reasons) CHECK_THAT(all, ContainsSubstring(reason));
    CHECK_FALSE(run_of(f / "clean").contains("skipped_rows"));
    // One bad row more than the limit allows ends the run with the error of that row.
    const std::string less = std::to_string(bad.size() - 1);
    CHECK(run_verb(words(f, dirty, "no", {"--skip_bad_rows", less})).code == 5);
    const Said none = run_verb(words(f, dirty, "no"));
    CHECK(none.code == 5);
    CHECK(none.id == id);
  };
  equal("csv", {"red,no,more", "\"red\" car,no", "red sky,", "red\xff,yes", "blue,maybe", "\"red sky,no"},
        "E_DATA_UTF8",
        {"3 fields, the first row has 2", "a quote is opened here and never closed", "no label in column 'label'",
         "not UTF-8", "label 'maybe'", "text follows the quote"});
  equal("jsonl",
        {"{\"text\": \"red\", \"label\": ", "[1, 2]", R"({"label": "no"})", R"({"text": ["red"], "label": "no"})",
         R"({"text": "red"})"},
        "E_DATA_JSON",
        {"not valid JSON", "a JSON array, not an object", "key 'text' is missing or null", "holds an array or object",
         "no label in column 'label'"});
}

TEST_CASE("the same rows are skipped on resume, over ranks, and by eval", "[skip]") {
  const TempDir f;
  write_files(f, "csv", {"red,no,more", "red sky,", "blue,maybe"});
  const Words skip = {"--skip_bad_rows", "3", "--overwrite"};
  const auto with = [](Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  must_run(words(f, "clean.csv", "clean", {"--max_steps", "9", "--ranks", "2"}));
  must_run(words(f, "bad.csv", "bad", with(skip, {"--max_steps", "9", "--ranks", "2"})));
  CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
  must_run(words(f, "bad.csv", "part", with(skip, {"--max_steps", "4", "--ranks", "2"})));
  must_run(
      words(f, "bad.csv", "part", {"--skip_bad_rows", "3", "--max_steps", "9", "--ranks", "2", "--resume", "auto"}));
  CHECK(bytes_of(f / "part/model.onnx") == bytes_of(f / "clean/model.onnx"));
  CHECK(run_verb(words(f, "bad.csv", "part", {"--skip_bad_rows", "4", "--ranks", "2", "--resume", "auto"})).code == 6);
  const Words eval = {"eval", f / "bad", "--vocab", f / "vocab.txt", "--device", "cpu", "--quiet", "--val"};
  const json clean = json::parse(must_run(with(eval, {f / "clean.csv"})).out);
  const Said said = must_run(with(eval, {f / "bad.csv", "--skip_bad_rows", "3"}));
  CHECK(json::parse(said.out) == clean);
  CHECK_THAT(said.err, ContainsSubstring("3 of 43 rows are skipped"));
  CHECK(run_verb(with(eval, {f / "bad.csv", "--skip_bad_rows", "2"})).code == 5);
  // Groups and worst samples are computed from the remaining rows.
  must_run(words(f, "bad.csv", "groups", with(skip, {"--max_steps", "2", "--eval_group_by", "label"})));
  CHECK(run_of(f / "groups").at("final_metrics").contains("groups"));
}

TEST_CASE("rows of a table with a bad number, date or target are skipped", "[skip]") {
  const TempDir f;
  std::string clean = "city,day,area,price\n", dirty = clean;
  for (int i = 0; i < 60; ++i) {
    const std::string row =
        cat(i % 3 ? "Rome" : "Oslo", ",2024-03-", 10 + i % 20, ",", 20 + i * 37 % 101, ".5,", 1000 + 25 * i, ".25\n");
    clean += row;
    dirty += row;
    if (i == 10) dirty += "Rome,2024-03-01,big,1200.5\n";
    if (i == 20) dirty += "Rome,yesterday,30.5,1200.5\n";
    if (i == 30) dirty += "Rome,2024-03-01,30.5,\n";
    if (i == 40) dirty += "Rome,2024-03-01,30.5,cheap\n";
  }
  write_bytes(f / "clean.csv", clean);
  write_bytes(f / "bad.csv", dirty);
  const auto run = [&](const std::string& data, const Words& more) {
    Words w = {"tabular",  "--train", f / data,      "--val", f / data,  "--target",   "price",
               "--device", "cpu",     "--max_steps", "5",     "--quiet", "--overwrite"};
    w.insert(w.end(), more.begin(), more.end());
    return run_verb(w);
  };
  CHECK(run("clean.csv", {"--output_dir", f / "clean"}).code == 0);
  // The kinds of columns are guessed as for the clean file, although each column has a text that does not fit its kind.
  CHECK(run("bad.csv", {"--output_dir", f / "bad", "--skip_bad_rows", "4"}).code == 0);
  CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
  CHECK(run_of(f / "bad").at("skipped_rows").size() == 8);
  CHECK(run("bad.csv", {"--output_dir", f / "bad", "--skip_bad_rows", "3", "--continuous", "area", "--date", "day"})
            .code == 5);
}

TEST_CASE("images that are missing or cannot be decoded are skipped", "[skip]") {
  const TempDir f;
  for (int i = 0; i < 16; ++i) {
    std::string bytes = "P5 28 28 255\n";
    for (int p = 0; p < 28 * 28; ++p) bytes += static_cast<char>(((p < 392) == (i % 2 == 0) ? 180 : 40) + p * i % 32);
    for (const char* set : {"clean", "bad"}) {
      const std::string dir = f / set + (i % 2 ? "/a" : "/b");
      fs::create_directories(dir);
      write_bytes(dir + "/" + std::to_string(10 + i) + ".pgm", bytes);
    }
  }
  write_bytes(f / "bad/a/12.png", "not an image");
  write_bytes(f / "bad/b/19.pgm", "P5 28 28 255\nshort");
  const auto run = [&](const std::string& data, const std::string& out, const Words& more) {
    Words w = {test_data("zoo/lenet_relu_dyn18/model.onnx"),
               "--train",
               f / data,
               "--num_labels",
               "2",
               "--device",
               "cpu",
               "--batch_size",
               "8",
               "--max_steps",
               "4",
               "--output_dir",
               f / out,
               "--quiet"};
    w.insert(w.end(), more.begin(), more.end());
    return run_verb(w);
  };
  CHECK(run("clean", "c", {}).code == 0);
  CHECK(run("bad", "b", {"--skip_bad_rows", "2"}).code == 0);
  CHECK(bytes_of(f / "b/model.onnx") == bytes_of(f / "c/model.onnx"));
  const json skipped = run_of(f / "b").at("skipped_rows");
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0].at("file") == f / "bad/a/12.png");
  CHECK_THAT(skipped[0].at("reason").get<std::string>(), ContainsSubstring("bad/a/12.png"));
  CHECK(run("bad", "no", {"--skip_bad_rows", "1"}).code == 5);
  CHECK(run("bad", "no", {}).code == 5);
  // Tests a table of paths, one of which names no file.
  std::string rows = "file,label\n", good = rows;
  for (int i = 0; i < 16; ++i) good += cat("clean/", i % 2 ? "a" : "b", "/", 10 + i, ".pgm,", i % 2 ? "a" : "b", "\n");
  write_bytes(f / "good.csv", good);
  write_bytes(f / "gone.csv", good + "clean/a/99.pgm,a\n");
  const Words table = {"--image_column", "file"};
  CHECK(run("good.csv", "t", table).code == 0);
  CHECK(run("gone.csv", "no", table).code == 5);
  CHECK(run("gone.csv", "g", {"--image_column", "file", "--skip_bad_rows", "1"}).code == 0);
  CHECK(bytes_of(f / "g/model.onnx") == bytes_of(f / "t/model.onnx"));
  CHECK(run_of(f / "g").at("skipped_rows").at(0).at("line") == 18);
}

namespace {

// Returns a model with two trained numbers per token: the logits of two tags, or of an answer's start and end.
std::string token_model(const TempDir& f, const std::string& outputs, const std::string& nodes) {
  std::string zeros = "0";
  for (int i = 1; i < 24; ++i) zeros += ",0";
  return save(f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids, int64[B,S] "
                             "attention_mask) => (" +
                             outputs + ") <float[12,2] e = {" + zeros +
                             "}, int64[1] last = {-1}> { c = Cast<to = 1>(attention_mask) m = Unsqueeze(c, last) g = "
                             "Gather(e, input_ids) x = Mul(g, m) " +
                             nodes + " }"));
}

// Trains on 24 rows, and on the same rows with bad rows between them, and compares the runs.
void compare_skipped(const TempDir& f, const std::string& header, const std::function<std::string(int)>& good,
                     const Words& bad, const Words& reasons, const Words& settings) {
  std::string clean = header, dirty = header;
  for (int i = 0; i < 24; ++i) {
    clean += good(i);
    dirty += good(i);
    if (i % 5 == 2 && static_cast<size_t>(i / 5) < bad.size()) dirty += bad[static_cast<size_t>(i / 5)] + "\n";
  }
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  write_bytes(f / "clean.csv", clean);
  write_bytes(f / "bad.csv", dirty);
  const auto run = [&](const std::string& data, const std::string& out, const Words& more) {
    Words w = settings;
    for (const std::string& word :
         Words{"--train", f / data, "--val", f / data, "--vocab", f / "vocab.txt", "--lr", "0.1", "--batch_size", "4",
               "--device", "cpu", "--max_steps", "7", "--quiet", "--overwrite", "--output_dir", f / out})
      w.push_back(word);
    w.insert(w.end(), more.begin(), more.end());
    return run_verb(w);
  };
  const std::string n = std::to_string(bad.size()), less = std::to_string(bad.size() - 1);
  const Said first = run("clean.csv", "clean", {}), said = run("bad.csv", "bad", {"--skip_bad_rows", n});
  INFO(first.fact << said.fact << said.err);
  REQUIRE(first.code == 0);
  REQUIRE(said.code == 0);
  CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
  CHECK(run_of(f / "bad").at("final_metrics") == run_of(f / "clean").at("final_metrics"));
  const json skipped = run_of(f / "bad").at("skipped_rows");
  REQUIRE(skipped.size() == 2 * bad.size());
  for (const std::string& reason : reasons) CHECK_THAT(skipped.dump(), ContainsSubstring(reason));
  CHECK(run("bad.csv", "no", {"--skip_bad_rows", less}).code == 5);
  CHECK(run("bad.csv", "no", {}).code == 5);
}

}  // namespace

TEST_CASE("rows whose words and tags do not match are skipped", "[skip]") {
  const TempDir f;
  const std::string model = token_model(f, "float[B,S,2] logits", "logits = Identity(x)");
  const auto row = [](int i) { return std::string(i % 2 ? "red car,no yes\n" : "sky tree runs,yes no no\n"); };
  const Words settings = {model, "--task", "token", "--text_columns", "words", "--label_column", "tags"};
  const Words bad = {"red car,no", ",", "sky,maybe"};
  const Words known = {"--labels", "no,yes"};
  Words with = settings;
  with.insert(with.end(), known.begin(), known.end());
  compare_skipped(f, "words,tags\n", row, bad, {"2 words in column 'words', 1 tags", "0 words", "the tag 'maybe'"},
                  with);
  // A missing column is an error of the table, not of its rows, so it is not skipped.
  Words other = {model, "--task", "token", "--text_columns", "words", "--label_column", "tag", "--skip_bad_rows", "99"};
  for (const std::string& word : Words{"--train", f / "bad.csv", "--vocab", f / "vocab.txt", "--output_dir", f / "no"})
    other.push_back(word);
  const Said said = run_verb(other);
  CHECK(said.id == "E_DATA_COLUMN");
}

TEST_CASE("rows whose answer is not in the text are skipped", "[skip]") {
  const TempDir f;
  const std::string model =
      token_model(f, "float[B,S] start_logits, float[B,S] end_logits",
                  "a, b = Split<axis = 2>(x) start_logits = Squeeze(a, last) end_logits = Squeeze(b, last)");
  const auto row = [](int i) { return std::string(i % 2 ? "car,red car runs,red\n" : "sky,blue sky tree,tree\n"); };
  compare_skipped(f, "question,passage,answer\n", row, {"car,red car runs,blue", "sky,,tree"},
                  {"the answer 'blue' in column 'answer' is not in column 'passage'", "the answer 'tree'"},
                  {model, "--task", "span", "--text_columns", "question,passage", "--label_column", "answer"});
}

TEST_CASE("texts of CoNLL files and questions of SQuAD's JSON are skipped", "[skip]") {
  const TempDir f;
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\ncar\ntree\nsky\nruns\n");
  std::string clean, dirty;
  for (int i = 0; i < 20; ++i) {
    const std::string text = cat(i % 2 ? "red" : "blue", "\tB\ncar\tO\n\n");
    clean += text;
    dirty += text;
    if (i == 4) dirty += "red\ncar\tO\n\n";
    if (i == 9) dirty += "sky\tO\ntree\tB\nruns\n\n";
  }
  write_bytes(f / "clean.conll", clean);
  write_bytes(f / "bad.conll", dirty);
  write_bytes(f / "val.conll", "red\tB\n\nsky\tX\n\ncar\tO\n");  // X is not a class of the training data
  std::string zeros = "0";
  for (int i = 1; i < 24; ++i) zeros += ",0";
  const std::string tagger = save(
      f,
      test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids, int64[B,S] attention_mask) "
                  "=> (float[B,S,2] logits) <float[12,2] e = {" +
                  zeros +
                  "}, int64[1] two = {2}> { c = Cast<to = 1>(attention_mask) m = Unsqueeze(c, two) x = Gather(e, "
                  "input_ids) logits = Mul(x, m) }"),
      "tagger.onnx");
  const auto run = [&](const std::string& model, const std::string& train, const std::string& val,
                       const std::string& out, const Words& more) {
    Words w = {
        model,         "--train",      f / train, "--val",        f / val, "--vocab",  f / "vocab.txt", "--lr",
        "0.1",         "--max_steps",  "6",       "--batch_size", "4",     "--device", "cpu",           "--quiet",
        "--overwrite", "--output_dir", f / out};
    w.insert(w.end(), more.begin(), more.end());
    return run_verb(w);
  };
  CHECK(run(tagger, "clean.conll", "clean.conll", "clean", {}).code == 0);
  const Said skipped = run(tagger, "bad.conll", "bad.conll", "bad", {"--skip_bad_rows", "2"});
  CHECK(skipped.code == 0);
  CHECK_THAT(skipped.err, ContainsSubstring("2 of 22 texts are skipped"));
  CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
  CHECK(run_of(f / "bad").at("final_metrics") == run_of(f / "clean").at("final_metrics"));
  REQUIRE(run_of(f / "bad").at("skipped_rows").size() == 4);
  CHECK(run_of(f / "bad").at("skipped_rows")[1].at("line") == 34);
  CHECK(run(tagger, "bad.conll", "clean.conll", "no", {"--skip_bad_rows", "1"}).code == 5);
  const Said unknown = run(tagger, "clean.conll", "val.conll", "val", {"--skip_bad_rows", "1"});
  CHECK(unknown.code == 0);
  CHECK_THAT(unknown.err, ContainsSubstring("1 of 3 texts are skipped"));
  CHECK(run(tagger, "clean.conll", "val.conll", "val", {}).code == 5);

  const auto paragraph = [](int i, const std::string& answer) {
    return cat(R"({"context": "red car runs", "qas": [{"id": ")", i, R"(", "question": "car", "answers": [{"text": ")",
               answer, R"(", "answer_start": 4}]}]})");
  };
  std::string good = paragraph(0, "car"), some = good;
  for (int i = 1; i < 12; ++i) {
    if (i % 4 == 1) some += "," + paragraph(100 + i, "sky");
    if (i == 6) some += R"(,{"context": "sky"})";
    good += "," + paragraph(i, "car");
    some += "," + paragraph(i, "car");
  }
  const auto squad = [](const std::string& paragraphs) {
    return R"({"data": [{"paragraphs": [)" + paragraphs + "]}]}";
  };
  write_bytes(f / "clean.json", squad(good));
  write_bytes(f / "bad.json", squad(some));
  const std::string reader =
      save(f,
           test::parse(
               "<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] input_ids) => (float[B,S] start_logits, "
               "float[B,S] end_logits) <float[12] e = {0,0,0,0,0,0,0,0,0,0,0,0}, float[12] d = "
               "{0,0,0,0,0,0,0,0,0,0,0,0}> { start_logits = Gather(e, input_ids) end_logits = Gather(d, input_ids) }"),
           "reader.onnx");
  CHECK(run(reader, "clean.json", "clean.json", "clean", {"--task", "span"}).code == 0);
  const Said questions = run(reader, "bad.json", "bad.json", "bad", {"--task", "span", "--skip_bad_rows", "4"});
  CHECK(questions.code == 0);
  CHECK_THAT(questions.err, ContainsSubstring("4 of 16 questions are skipped"));
  CHECK(bytes_of(f / "bad/model.onnx") == bytes_of(f / "clean/model.onnx"));
  CHECK(run(reader, "bad.json", "clean.json", "no", {"--task", "span", "--skip_bad_rows", "3"}).code == 5);
}
