// Tests --check_data on files with mistakes, and the settings that select samples.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

std::vector<std::string> words(const TempDir& f, std::vector<std::string> more) {
  std::vector<std::string> out = {test_data("zoo/minilm_embed_ts14/model.onnx"),
                                  "--vocab",
                                  f / "v.txt",
                                  "--text_columns",
                                  "t",
                                  "--label_column",
                                  "y",
                                  "--device",
                                  "cpu",
                                  "--quiet"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

void vocabulary(const TempDir& f) { write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n"); }

}  // namespace

TEST_CASE("--check_data counts and names what is wrong") {
  const TempDir f;
  vocabulary(f);
  write_bytes(f / "a.csv", "t,y\ngood day,yes\nbad day,no\ngood day,no\n ,yes\n");
  write_bytes(f / "b.csv", "t,y\nbad,\nday day day day,no\n");
  write_bytes(f / "v.csv", "text,label\nbad day,no\ngood,maybe\n");
  const Said said = run_verb(words(f, {"--train", f / "?.csv", "--check_data", "--max_seq_len", "5"}));
  CHECK(said.code == 5);  // ?.csv also matches v.csv, which has other columns
  CHECK(json::parse(said.out)["first_problems"][0]["what"].get<std::string>().find("unlike") != std::string::npos);
  const Said two = run_verb(
      words(f, {"--train", (f / "a.csv") + "," + (f / "b.csv"), "--val", f / "v.csv", "--val_text_columns", "text",
                "--val_label_column", "label", "--check_data", "--max_seq_len", "5", "--output_dir", f / "run"}));
  CHECK(two.code == 5);
  const json j = json::parse(two.out);
  CHECK(j["task"] == "classification");
  CHECK(j["files"][0]["rows"] == 6);
  CHECK(j["files"][0]["labels"] == json::parse(R"({"": 1, "no": 3, "yes": 2})"));
  CHECK(j["files"][0]["duplicates"] == 1);
  CHECK(j["files"][0]["cut"] == 1);
  CHECK(j["files"][0]["tokens"] == json::parse(R"({"shortest": 2, "median": 4, "longest": 6})"));
  CHECK(j["files"][0]["lengths"] == json::parse(R"([{"up_to": 16, "rows": 6}])"));
  CHECK(j["validation_rows_in_training"] == 1);
  const auto problem = [&](const std::string& where, const std::string& what) {
    for (const json& p : j["first_problems"]) {
      if (p["where"] == where && p["what"].get<std::string>().find(what) != std::string::npos) return true;
    }
    return false;
  };
  CHECK(problem((f / "a.csv") + ":4", "the text of " + (f / "a.csv") + ":2 has another label here"));
  CHECK(problem((f / "a.csv") + ":5", "the text is empty"));
  CHECK(problem((f / "b.csv") + ":2", "there is no label"));
  CHECK(problem((f / "v.csv") + ":3", "'maybe' is not in the training data"));
  CHECK(j["problems"] == 4);
  CHECK_FALSE(std::filesystem::exists(f / "run"));
  CHECK(two.err.find("validation rows whose text is in the training data: 1") != std::string::npos);
}

TEST_CASE("--check_data: a clean file, and one that cannot be read") {
  const TempDir f;
  vocabulary(f);
  write_bytes(f / "a.csv", "t,y\ngood day,yes\nbad day,no\n");
  CHECK(run_verb(words(f, {"--train", f / "a.csv", "--check_data"})).code == 0);
  write_bytes(f / "a.csv", "t,y\ngood day,yes\n\"bad day,no\n");
  const Said said = run_verb(words(f, {"--train", f / "a.csv", "--task", "classification", "--check_data"}));
  CHECK(said.code == 5);
  const json first = json::parse(said.out)["first_problems"][0];
  CHECK(first["where"] == (f / "a.csv") + ":3:1");
  CHECK_THAT(first["what"].get<std::string>(), Catch::Matchers::StartsWith("a quote is opened"));
  CHECK(run_verb(words(f, {"--train", f / "none.csv", "--task", "classification", "--check_data"})).id ==
        "E_FILE_MISSING");
}

TEST_CASE("a share is held out, samples are limited, validation columns have names of their own") {
  const TempDir f;
  vocabulary(f);
  std::string rows = "t,y\n";
  for (int i = 0; i < 20; ++i) rows += i % 4 ? "good day,yes\n" : "bad day,no\n";
  write_bytes(f / "a.csv", rows);
  const auto run = [&](std::vector<std::string> more) {
    const std::vector<std::string> common = {"--train",     f / "a.csv", "--output_dir", f / "run", "--overwrite",
                                             "--max_steps", "2",         "--batch_size", "4"};
    more.insert(more.begin(), common.begin(), common.end());
    must_run(words(f, more));
    return json::parse(bytes_of(f / "run/run.json"));
  };
  const json split = run({"--val_split", "0.2"});
  CHECK(split["final_metrics"]["samples"] == 4);
  CHECK(split["final_metrics"]["per_class"]["no"]["support"] == 1);
  CHECK(split["final_metrics"]["per_class"]["yes"]["support"] == 3);
  CHECK(split["final_metrics"].contains("confusion_matrix"));
  CHECK(split["final_metrics"].contains("mcc"));
  write_bytes(f / "v.csv", "text,label\nbad day,no\ngood,yes\nday,yes\n");
  const std::vector<std::string> val = {"--val", f / "v.csv",          "--val_text_columns",
                                        "text",  "--val_label_column", "label"};
  CHECK(run(val)["final_metrics"]["samples"] == 3);
  std::vector<std::string> limited = val;
  limited.insert(limited.end(), {"--limit_val", "2", "--limit_train", "5", "--epochs", "1", "--max_steps", "-1"});
  const json few = run(limited);
  CHECK(few["final_metrics"]["samples"] == 2);
  CHECK(few["steps"]["attempted"] == 2);
  limited.insert(limited.end(), {"--val_split", "0.1"});
  CHECK(run_verb(words(f, {"--train", f / "a.csv", "--val", f / "v.csv", "--val_split", "0.1"})).id == "E_USAGE");
}

TEST_CASE("a vocabulary with capital letters is a cased model's, unless said otherwise") {
  const TempDir f;
  write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\nGood\nDay\n");
  write_bytes(f / "a.csv", "t,y\nGood Day,yes\nbad day,no\n");
  const auto lowered = [&](const std::vector<std::string>& more) {
    std::vector<std::string> given = {"--train",      f / "a.csv", "--max_steps", "1",
                                      "--output_dir", f / "run",   "--overwrite"};
    given.insert(given.end(), more.begin(), more.end());
    must_run(words(f, given));
    const Said said = must_run({"predict", f / "run", "--inputs", f / "a.csv", "--out", f / "p.csv"});
    return said.err.find("--lower_case true") != std::string::npos;
  };
  CHECK_FALSE(lowered({}));
  CHECK(lowered({"--lower_case", "true"}));
  vocabulary(f);
  CHECK(lowered({}));
}

TEST_CASE("tagged words and SQuAD's JSON are known by their files") {
  const TempDir f;
  vocabulary(f);
  must_run({"create", "bert", "--model_head", "none", "--out", f / "bert.onnx", "--model_config",
            R"({"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2})"});
  const auto task = [&](const std::string& file) {
    must_run({f / "bert.onnx", "--train", f / file, "--vocab", f / "v.txt", "--max_steps", "1", "--output_dir",
              f / "run", "--overwrite", "--quiet", "--device", "cpu"});
    must_run({"predict", f / "run", "--inputs", f / file, "--out", f / "p.jsonl", "--quiet"});
    return json_lines(f / "p.jsonl").at(0);
  };
  write_bytes(f / "w.conll", "good\tO\nday\tB-x\n\nbad\tO\n");
  CHECK(task("w.conll").contains("predicted_tags"));
  write_bytes(f / "q.json",
              R"({"data": [{"title": "t", "paragraphs": [{"context": "good day", "qas": [
                {"id": "a", "question": "bad", "answers": [{"text": "day", "answer_start": 5}]}]}]}]})");
  CHECK(task("q.json").contains("predicted_answer"));
}

TEST_CASE("columns that are not there are told with the flag that names them") {
  const TempDir f;
  vocabulary(f);
  write_bytes(f / "a.csv", "t,y\ngood day,yes\nbad day,no\n");
  write_bytes(f / "v.csv", "content,class\nbad day,no\n");
  write_bytes(f / "rows.tsv", "good day\tyes\nbad day\tno\n");
  const auto refused = [&](const std::vector<std::string>& given, const std::string& hint) {
    const Said said = run_verb(given);
    CHECK(said.id == "E_DATA_COLUMN");
    INFO(said.fact << "\n" << said.hint);
    CHECK(said.hint.find(hint) != std::string::npos);
  };
  const std::string run = f / "run";
  refused(words(f, {"--train", f / "a.csv", "--val", f / "v.csv", "--output_dir", run}), "--val_text_columns");
  refused(
      words(f, {"--train", f / "a.csv", "--val", f / "v.csv", "--val_text_columns", "content", "--output_dir", run}),
      "--val_label_column");
  refused(words(f, {"--train", f / "rows.tsv", "--output_dir", run}), "without a header by their numbers");
  const std::string model = test_data("zoo/minilm_embed_ts14/model.onnx");
  refused({model, "--train", f / "rows.tsv", "--vocab", f / "v.txt", "--text_columns", "0", "--output_dir", run},
          "--task language");
  must_run(words(f, {"--train", f / "a.csv", "--max_steps", "1", "--output_dir", run}));
  refused({"predict", run, "--inputs", f / "v.csv", "--out", f / "p.csv", "--quiet"}, "--text_columns");
}

TEST_CASE("--check_data counts sources with their prefix, and targets by a length of their own") {
  const TempDir f;
  write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n");
  write_bytes(f / "t.csv", "s,t\ngood day,bad\ngood,bad day bad\nday,day\n");
  const auto cut = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {test_data("seq2seq/model.onnx"),
                                    "--task",
                                    "seq2seq",
                                    "--vocab",
                                    f / "v.txt",
                                    "--text_columns",
                                    "s,t",
                                    "--train",
                                    f / "t.csv",
                                    "--check_data",
                                    "--quiet",
                                    "--max_seq_len",
                                    "5"};
    all.insert(all.end(), more.begin(), more.end());
    const Said said = run_verb(all);
    INFO(said.err);
    return std::pair(json::parse(said.out)["files"][0]["cut"].get<int>(),
                     json::parse(said.out)["files"][0]["tokens"]["longest"].get<int>());
  };
  CHECK(cut({}) == std::pair(0, 5));
  CHECK(cut({"--source_prefix", "good: "}) == std::pair(1, 6));
  CHECK(cut({"--max_target_length", "4"}) == std::pair(1, 5));
}

TEST_CASE("--check_data lists empty classes, missing images and malformed rows with the other problems") {
  const TempDir f;
  const auto said_of = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {test_data("zoo/lenet_relu_dyn18/model.onnx"), "--device", "cpu", "--quiet", "--check_data"});
    const Said said = run_verb(more);
    CHECK(said.code == 5);
    return json::parse(said.out);
  };
  const auto has = [](const json& report, const std::string& where, const std::string& what) {
    for (const json& p : report["first_problems"]) {
      const std::string said = p["what"];
      if (p["where"].get<std::string>().find(where) != std::string::npos && said.find(what) != std::string::npos)
        return true;
    }
    return false;
  };
  const std::string picture = "P5 2 2 255\n" + std::string("\1\2\3\4");
  for (const char* folder : {"set/a", "set/b", "set/c", "masks"}) std::filesystem::create_directories(f / folder);
  write_bytes(f / "set/a/1.pgm", picture);
  write_bytes(f / "set/b/2.pgm", "P5 2 2 255\n1");
  const json folders = said_of({"--train", f / "set"});
  CHECK(folders["problems"] == 2);
  CHECK(folders["files"][0]["rows"] == 2);
  CHECK(has(folders, "set/c", "the class has no images"));
  CHECK(has(folders, "2.pgm", ""));

  write_bytes(f / "table.csv", "image,label\nset/a/1.pgm,x\nnone.pgm,y\nset/a/none.pgm,x\n");
  const json table = said_of({"--train", f / "table.csv", "--image_column", "image"});
  CHECK(table["problems"] == 2);
  CHECK(has(table, "table.csv:3", "there is no file"));
  CHECK(has(table, "table.csv:4", "there is no file"));

  write_bytes(f / "masks/1.pgm", picture);
  const json masks = said_of({"--train", f / "set", "--train_masks", f / "masks", "--task", "segmentation"});
  CHECK(has(masks, "2.pgm", "no mask"));

  vocabulary(f);
  write_bytes(f / "rows.csv", "t,y\ngood day,yes\nbad,no,more\nday,no\nbad\n");
  const Said rows = run_verb(words(f, {"--train", f / "rows.csv", "--check_data"}));
  const json report = json::parse(rows.out);
  CHECK(report["files"][0]["rows"] == 2);
  CHECK(has(report, "rows.csv:3", "3 fields"));
  CHECK(has(report, "rows.csv:5", "1 field"));
}
