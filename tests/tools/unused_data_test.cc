// Data that a command names must not be ignored silently: several files, limits, labels with spaces.
#include <catch2/catch_all.hpp>
#include <map>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

struct TextRun {
  const TempDir& f;
  Said operator()(std::vector<std::string> more) const {
    std::vector<std::string> words = {test_data("zoo/minilm_embed_ts14/model.onnx"),
                                      "--vocab",
                                      f / "v.txt",
                                      "--text_columns",
                                      "t",
                                      "--label_column",
                                      "y",
                                      "--device",
                                      "cpu",
                                      "--output_dir",
                                      f / "run",
                                      "--overwrite",
                                      "--max_steps",
                                      "1",
                                      "--lr",
                                      "0"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  }
  json record() const { return json::parse(bytes_of(f / "run/run.json")); }
};

std::string sorted_rows(int first, int second) {  // rows of two classes, sorted by class
  std::string out = "t,y\n";
  for (int i = 0; i < first; ++i) out += cat("good day ", i, ",yes\n");
  for (int i = 0; i < second; ++i) out += cat("bad day ", i, ",no\n");
  return out;
}

}  // namespace

TEST_CASE("a flag of data that is given twice reads both files, and limits sample all of them", "[unused]") {
  const TempDir f;
  const TextRun run{f};
  write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n");
  write_bytes(f / "a.csv", sorted_rows(20, 0));
  write_bytes(f / "b.csv", sorted_rows(0, 20));
  REQUIRE(run({"--train", f / "a.csv", "--train", f / "b.csv", "--val", f / "a.csv", "--val", f / "b.csv"}).code == 0);
  CHECK(run.record()["final_metrics"]["samples"] == 40);
  const std::vector<std::string> files = {"--train", f / "a.csv", "--train", f / "b.csv",
                                          "--val",   f / "a.csv", "--val",   f / "b.csv"};
  std::vector<std::string> words = files;
  words.insert(words.end(), {"--limit_train", "10", "--limit_val", "10"});
  REQUIRE(run(words).code == 0);
  const json classes = run.record()["final_metrics"]["per_class"];
  CHECK(classes["yes"]["support"] == 5);
  CHECK(classes["no"]["support"] == 5);
  words = files;
  words.insert(words.end(), {"--limit_val", "10", "--limit_order", "first"});
  const Said first = run(words);
  REQUIRE(first.code == 0);
  CHECK(run.record()["final_metrics"]["per_class"]["yes"]["support"] == 10);
  CHECK_THAT(first.err, ContainsSubstring("all 10 validation samples have the label 'yes' of 2"));
  words = files;
  words.insert(words.end(), {"--limit_train", "10", "--limit_order", "first"});
  const Said one = run(words);
  CHECK(one.id == "E_DATA_LABEL");
  CHECK_THAT(one.fact, ContainsSubstring("no classes to distinguish"));
  CHECK_THAT(one.hint, ContainsSubstring("--limit_order first"));
}

TEST_CASE("labels with spaces are read without them, those that differ in capitals are told", "[unused]") {
  const TempDir f;
  const TextRun run{f};
  write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n");
  write_bytes(f / "a.csv", "t,y\ngood, yes\ngood day,yes \nbad,no\nbad day,No\n");
  const Said trained = run({"--train", f / "a.csv"});
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("2 labels have spaces around") && ContainsSubstring("'No', 'no'") &&
                              ContainsSubstring("--label_map 'No=no'"));
  const Said merged = run({"--train", f / "a.csv", "--label_map", "No=no"});
  REQUIRE(merged.code == 0);
  CHECK_THAT(merged.err, !ContainsSubstring("differ only"));
  const Said checked = run({"--train", f / "a.csv", "--check_data"});
  CHECK(checked.code == 5);
  const json j = json::parse(checked.out);
  CHECK(j["problems"] == 2);
  CHECK(j["files"][0]["labels"] == json::parse(R"({"No": 1, "no": 1, "yes": 2})"));
  const Said kept = run({"--train", f / "a.csv", "--trim_labels", "false"});
  REQUIRE(kept.code == 0);
  CHECK_THAT(kept.err, !ContainsSubstring("spaces around"));
}
