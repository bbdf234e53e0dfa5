// Text tables: what RFC 4180, GLUE-like TSV and JSON lines allow is read; what they do not is an error with its line.
#include "data/table.h"

#include <catch2/catch_all.hpp>

#include "base/error.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows cells(const Table& t) {
  Rows out;
  for (int64_t r = 0; r < t.rows(); ++r) {
    out.emplace_back();
    for (size_t c = 0; c < t.columns().size(); ++c) out.back().emplace_back(t.text(r, c));
  }
  return out;
}

Table csv(const std::string& bytes, const TableOptions& o = {}) {
  return Table::parse(bytes, "t.csv", TableFormat::csv, o);
}
Table tsv(const std::string& bytes, const TableOptions& o = {}) {
  return Table::parse(bytes, "t.tsv", TableFormat::tsv, o);
}
Table jsonl(const std::string& bytes) { return Table::parse(bytes, "t.jsonl", TableFormat::jsonl); }

}  // namespace

TEST_CASE("CSV quoting, line breaks and line ends") {
  const Table t = csv("\xef\xbb\xbftext,label\r\n\"a, \"\"b\"\"\r\nc\",x\n\nplain \"quote\" inside,y\r,\n\"\",\"z\"");
  CHECK(t.columns() == std::vector<std::string>{"text", "label"});
  CHECK(cells(t) == Rows{{"a, \"b\"\r\nc", "x"}, {"plain \"quote\" inside", "y"}, {"", ""}, {"", "z"}});
  CHECK(t.line(0) == 2);
  CHECK(t.line(1) == 5);
  CHECK(t.line(2) == 6);
  CHECK(t.where(3) == "t.csv:7");
  CHECK(cells(csv("a;b\n1,5;2\n", {.delimiter = ';'})) == Rows{{"1,5", "2"}});
  CHECK(cells(csv("a\n\xef\xbb\xbfx\n\xef\xbb\xbfy\n")) == Rows{{"x"}, {"y"}});  // a mark on every line
  const Table bare = csv("1,2\n3,4\n", {.header = false});
  CHECK(bare.columns() == std::vector<std::string>{"0", "1"});
  CHECK(bare.rows() == 2);
}

TEST_CASE("CSV errors name the line") {
  expect_error("E_DATA_CSV", "t.csv:3: 1 fields, the first row has 2: a, b", [] { csv("a,b\n1,2\n3\n"); });
  expect_error("E_DATA_CSV", "t.csv:2: a quote is opened here", [] { csv("a,b\n\"1,2\n3,4\n"); });
  expect_error("E_DATA_CSV", "t.csv:3: text follows the quote that closes the field opened on line 2",
               [] { csv("a,b\n\"1\n\"x,2\n"); });
  expect_error("E_DATA_EMPTY", "t.csv:1: no rows: the file has 0 bytes", [] { csv(""); });
  expect_error("E_DATA_EMPTY", "2 columns named", [] { csv("a,b\n"); });
  expect_error("E_DATA_COLUMN", "two columns are named 'a'", [] { csv("a,a\n1,2\n"); });
  expect_error("E_DATA_COLUMN", "did you mean 'sentiment'?", [] { csv("text,sentiment\n1,2\n").column("sentimant"); });
  expect_error("E_DATA_COLUMN", "the file has: text, sentiment", [] { csv("text,sentiment\n1,2\n").column("zzz"); });
}

TEST_CASE("text that is not UTF-8 is refused with line, column and bytes") {
  expect_error("E_DATA_UTF8", "t.csv:3:4: not UTF-8: bytes e9 2c 31 0a at offset 11",
               [] { csv("a,b\nx,1\ncaf\xe9,1\n"); });
  expect_error("E_DATA_UTF8", "UTF-16", [] {
    csv("\xff\xfe"
        "a");
  });
  expect_error("E_DATA_UTF8", "t.csv:2:2: a NUL byte", [] { csv(std::string("a,b\nx\0,1\n", 9)); });
  expect_error("E_DATA_UTF8", "t.csv:1:1: not UTF-8", [] { csv("\xed\xa0\x80"); });
}

TEST_CASE("TSV of the GLUE kind keeps its lone quotes, a quoted one is unquoted") {
  CHECK(cells(tsv("id\ttext\n1\t\"The witness\" said\n2\t\"open\n3\tclose\"\n")) ==
        Rows{{"1", "\"The witness\" said"}, {"2", "\"open"}, {"3", "close\""}});
  CHECK(cells(tsv("id\ttext\n1\t\"all \"\"quoted\"\"\"\n2\ta, b\n")) == Rows{{"1", "all \"quoted\""}, {"2", "a, b"}});
  CHECK(cells(tsv("id\ttext\n1\t\"tab\there\nand a line\"\n2\tx\n")) ==
        Rows{{"1", "tab\there\nand a line"}, {"2", "x"}});
  CHECK(cells(tsv("id\ttext\n1\t\"q\"\n", {.quoting = Quoting::none})) == Rows{{"1", "\"q\""}});
  expect_error("E_DATA_CSV", "t.tsv:2", [] { tsv("id\ttext\n1\t\"open\n2\n"); });
  expect_error("E_DATA_CSV", "t.tsv:2", [] { tsv("id\ttext\n1\t\"open\n", {.quoting = Quoting::rfc4180}); });
}

TEST_CASE("JSON lines") {
  const Table t = jsonl(
      "{\"text\": \"a\\nb\\u00e9\", \"label\": 1}\r\n\n{\"label\": true, \"extra\": [1], \"text\": "
      "\"c\"}\n{\"text\":null,\"label\":0.5}");
  CHECK(t.columns() == std::vector<std::string>{"text", "label", "extra"});
  CHECK(t.text(0, 0) == "a\nb\xc3\xa9");
  CHECK(t.text(0, 1) == "1");
  CHECK(t.text(1, 1) == "true");
  CHECK(t.text(2, 1) == "0.5");
  CHECK(t.where(1) == "t.jsonl:3");
  CHECK(t.has(1, 2));
  CHECK_FALSE(t.has(0, 2));
  expect_error("E_DATA_JSON", "t.jsonl:4: key 'text' is missing or null", [&] { t.text(2, 0); });
  expect_error("E_DATA_JSON", "t.jsonl:3: key 'extra' holds an array", [&] { t.text(1, 2); });
  expect_error("E_DATA_JSON", "t.jsonl:2:7: not valid JSON", [] { jsonl("{\"a\": 1}\n{\"a\": x}\n"); });
  expect_error("E_DATA_JSON", "t.jsonl:1:1: a JSON array, not an object", [] { jsonl("[1]\n"); });
  expect_error("E_DATA_JSON", "key 'a' is repeated", [] { jsonl("{\"a\": 1, \"a\": 2}\n"); });
  expect_error("E_DATA_JSON", "nested deeper",
               [] { jsonl("{\"a\": " + std::string(1000000, '[') + std::string(1000000, ']') + "}\n"); });
  expect_error("E_DATA_JSON", "not valid JSON", [] { jsonl("{\"a\": \"\\ud800\"}\n"); });
  expect_error("E_DATA_EMPTY", "no rows", [] { jsonl("\n\n"); });
}

TEST_CASE("the format follows the extension") {
  CHECK(table_format("x/train.csv") == TableFormat::csv);
  CHECK(table_format("train.tsv") == TableFormat::tsv);
  CHECK(table_format("train.jsonl") == TableFormat::jsonl);
  CHECK_THROWS_AS(table_format("train.parquet"), Error);
}

TEST_CASE("the tweet sample reads as the reference reader counts it") {
  const Table train = Table::read(source_root() + "/models/tweet_sentiment/train.csv");
  CHECK(train.rows() == 8000);
  int64_t neutral = 0;
  for (int64_t r = 0; r < train.rows(); ++r) neutral += train.text(r, train.column("sentiment")) == "neutral";
  CHECK(neutral == 3228);
  CHECK(Table::read(source_root() + "/models/tweet_sentiment/dev.csv").rows() == 2000);
}
