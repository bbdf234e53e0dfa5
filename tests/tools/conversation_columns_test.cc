// Tables whose columns have the usual names of conversations train a language model without `task` and `text_columns`.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Said train(const TempDir& f, const std::string& data, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {test_data("llm/llama-int4"),
                                    "--train",
                                    f / data,
                                    "--output_dir",
                                    f / "run",
                                    "--overwrite",
                                    "--max_steps",
                                    "1",
                                    "--threads",
                                    "1"};
  words.insert(words.end(), more.begin(), more.end());
  return run_verb(words);
}

const char* const kChat =
    R"({"messages": [{"role": "user", "content": "Say one"}, {"role": "assistant", "content": "one"}]})"
    "\n";

}  // namespace

TEST_CASE("the usual columns of conversations and of prompts choose the task and the text columns") {
  const TempDir f;
  write_bytes(f / "chats.jsonl", kChat);
  write_bytes(f / "pairs.csv", "prompt,completion\nSay one,one\n");
  write_bytes(f / "shared.jsonl",
              R"({"conversations": [{"from": "human", "value": "Say one"}, {"from": "gpt", "value": "one"}]})"
              "\n");
  for (const auto& [file, columns] : {std::pair("chats.jsonl", "messages"), std::pair("shared.jsonl", "conversations"),
                                      std::pair("pairs.csv", "prompt,completion")}) {
    INFO(file);
    const Said said = train(f, file);
    INFO(said.out << said.err);
    REQUIRE(said.code == 0);
    CHECK_THAT(said.err, ContainsSubstring(cat("--text_columns ", columns, ", --task language, because")));
    const Said measured = run_verb({"eval", test_data("llm/llama-int4"), "--val", f / file, "--threads", "1"});
    INFO(measured.out << measured.err);
    CHECK(measured.code == 0);
    CHECK_THAT(measured.out, ContainsSubstring("perplexity"));
    CHECK(run_verb({"train", test_data("llm/llama-int4"), "--train", f / file, "--check_data"}).code == 0);
  }
}

TEST_CASE("a label, other columns or another task leave the choice to the settings") {
  const TempDir f;
  write_bytes(f / "labeled.csv", "messages,label\nSay one,a\n");
  write_bytes(f / "texts.csv", "text\nSay one\n");
  write_bytes(f / "chats.jsonl", kChat);
  CHECK(train(f, "labeled.csv").code == 5);
  CHECK(train(f, "texts.csv").code == 5);
  CHECK(train(f, "chats.jsonl", {"--task", "classification"}).code != 0);
  CHECK(train(f, "chats.jsonl", {"--text_columns", "messages", "--task", "language"}).code == 0);
}
