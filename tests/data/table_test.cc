// Text tables in RFC 4180, GLUE-like TSV and JSON lines are read; anything else is an error with its line number.
#include "data/table.h"

#include <zlib.h>

#include <catch2/catch_all.hpp>
#include <fstream>

#include "base/error.h"
#include "data/reader.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

using Rows = std::vector<std::vector<std::string>>;

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Rows cells(const Table& t) {
  Rows out;
  for (int64_t r = 0; r < t.rows(); ++r) {
    out.emplace_back();
    for (size_t c = 0; c < t.columns().size(); ++c) out.back().emplace_back(t.text(r, c));
  }
  return out;
}

Table csv(const std::string& bytes, const TableOptions& o = {}) {
  return Table::parse(bytes, "t.csv", reader_named("csv"), o);
}
Table tsv(const std::string& bytes, const TableOptions& o = {}) {
  return Table::parse(bytes, "t.tsv", reader_named("tsv"), o);
}
Table jsonl(const std::string& bytes) { return Table::parse(bytes, "t.jsonl", reader_named("jsonl")); }

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

TEST_CASE("rows of a TSV without header may have more fields than the columns that are asked for") {
  const std::string file = "a\t1\tx\n\"b\" said\t2\ty\tsource\tother\nc\t3\tz\n";
  const Table t = tsv(file, {.wanted = {"0", "2"}});
  CHECK(t.columns() == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK(t.rows() == 3);
  CHECK(t.text(1, 0) == "\"b\" said");
  CHECK(t.text(1, 4) == "other");
  CHECK(t.text(2, 2) == "z");
  CHECK(!t.has(2, 3));
  CHECK(tsv("a\tb\tc\td\n1\t2\n", {.wanted = {"1"}}).text(1, 1) == "2");           // the first row has more
  CHECK(tsv("a\tb\n\"1\tx\"\t2\n", {.wanted = {"0", "1"}}).text(1, 0) == "1\tx");  // RFC 4180 comes first
  expect_error("E_DATA_CSV", "t.tsv:2", [&] { tsv(file); });
  expect_error("E_DATA_CSV", "t.tsv:2", [&] { tsv(file, {.wanted = {"0", "3"}}); });
}

TEST_CASE("CSV errors name the line") {
  expect_error("E_DATA_CSV", "t.csv:3: 1 fields, the first row has 2: a, b", [] { csv("a,b\n1,2\n3\n"); });
  expect_error("E_DATA_CSV", "t.csv:2:1: a quote is opened here", [] { csv("a,b\n\"1,2\n3,4\n"); });
  expect_error("E_DATA_CSV", "t.csv:3:2: text follows the quote that closes the field opened at t.csv:2:1",
               [] { csv("a,b\n\"1\n\"x,2\n"); });
  expect_error("E_DATA_EMPTY", "t.csv:1: no rows: the file has 0 bytes", [] { csv(""); });
  expect_error("E_DATA_EMPTY", "2 columns named", [] { csv("a,b\n"); });
  expect_error("E_DATA_COLUMN", "two columns are named 'a'", [] { csv("a,a\n1,2\n"); });
  expect_error("E_DATA_COLUMN", "did you mean 'sentiment'?", [] { csv("text,sentiment\n1,2\n").column("sentimant"); });
  expect_error("E_DATA_COLUMN", "the file has: text, sentiment", [] { csv("text,sentiment\n1,2\n").column("zzz"); });
}

TEST_CASE("readers state the file and the line of each row that they leave out") {
  const auto skipped = [](const std::string& reader, const std::string& bytes) {
    const Table t = Table::parse(bytes, "t", reader_named(reader), {.most_skipped = 2});
    CHECK(t.rows() == 2);
    std::string out;
    for (const SkippedRow& row : t.skipped()) {
      out += row.file + ":" + std::to_string(row.line) + " ";
      CHECK_THAT(row.reason, Catch::Matchers::StartsWith("t:" + std::to_string(row.line) + ":"));
    }
    return out;
  };
  CHECK(skipped("csv", "a,b\n1,2\n\n3\n4,5\n6\n") == "t:4 t:6 ");
  CHECK(skipped("tsv", "a\tb\n1\t2\n3\n4\t5\n") == "t:3 ");
  CHECK(skipped("jsonl", "{\"a\": 1}\n\n{\"a\" 2}\n{\"a\": 3}\n") == "t:3 ");
  CHECK(skipped("lines", "first\n\n" + std::string(kMaxField + 1, 'x') + "\nlast\n") == "t:3 ");
}

TEST_CASE("text that is not UTF-8 is refused with line, column and bytes") {
  expect_error("E_DATA_UTF8", "t.csv:3:4: not UTF-8: bytes e9 2c 31 0a at offset 11",
               [] { csv("a,b\nx,1\ncaf\xe9,1\n"); });
  expect_error("E_DATA_UTF8", "UTF-16", [] {
    csv("\xff\xfe"
        "a");
  });
  expect_error("E_DATA_UTF8", "t.csv:2:2: a NUL byte", [] { csv(std::string("a,b\nx\0,1\n", 9)); });
  const Error nul = error_of([] { csv(std::string("a,b\nx\0,1\n", 9)); });
  CHECK_THAT(nul.hint(), Catch::Matchers::ContainsSubstring("iconv -f UTF-16LE"));
  expect_error("E_DATA_UTF8", "t.csv:1:1: not UTF-8", [] { csv("\xed\xa0\x80"); });
}

TEST_CASE("TSV of the GLUE kind keeps its quotes, RFC 4180's is unquoted") {
  CHECK(cells(tsv("id\ttext\n1\t\"The witness\" said\n2\t\"open\n3\tclose\"\n")) ==
        Rows{{"1", "\"The witness\" said"}, {"2", "\"open"}, {"3", "close\""}});
  CHECK(cells(tsv("id\ttext\n1\t\"So it is.\"\n2\tcalled \"it\"\n")) ==  // as MRPC has them
        Rows{{"1", "\"So it is.\""}, {"2", "called \"it\""}});
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
  expect_error("E_DATA_JSON", "t.jsonl:1:2: a JSON number, not an object", [] { jsonl("[1]\n"); });
  expect_error("E_DATA_JSON", "key 'a' is repeated", [] { jsonl("{\"a\": 1, \"a\": 2}\n"); });
  expect_error("E_DATA_JSON", "nested deeper",
               [] { jsonl("{\"a\": " + std::string(1000000, '[') + std::string(1000000, ']') + "}\n"); });
  expect_error("E_DATA_JSON", "not valid JSON", [] { jsonl("{\"a\": \"\\ud800\"}\n"); });
  expect_error("E_DATA_EMPTY", "no rows", [] { jsonl("\n\n"); });
}

TEST_CASE("the format follows the extension") {
  CHECK(reader_of("x/train.csv").name == "csv");
  CHECK(reader_of("train.tsv").name == "tsv");
  CHECK(reader_of("train.jsonl.gz").name == "jsonl");
  CHECK_THROWS_AS(reader_of("train.parquet"), Error);
}

TEST_CASE("the tweet sample reads as the reference reader counts it") {
  const Table train = Table::read(source_root() + "/models/tweet_sentiment/train.csv");
  CHECK(train.rows() == 8000);
  int64_t neutral = 0;
  for (int64_t r = 0; r < train.rows(); ++r) neutral += train.text(r, train.column("sentiment")) == "neutral";
  CHECK(neutral == 3228);
  CHECK(Table::read(source_root() + "/models/tweet_sentiment/dev.csv").rows() == 2000);
}

TEST_CASE("plain lines, and .txt with and without tabs") {
  const auto lines = [](const char* reader, const std::string& bytes) {
    return Table::parse(bytes, "t.txt", reader_named(reader));
  };
  const Table t = lines("lines", "\xef\xbb\xbf one, \"two\"\r\n\n  \nthree\tfour\n");
  CHECK(t.columns() == std::vector<std::string>{"text"});
  CHECK(cells(t) == Rows{{" one, \"two\""}, {"three\tfour"}});
  CHECK(t.where(1) == "t.txt:4");
  CHECK(cells(lines("txt", "a\tb\n1\t2\n")) == Rows{{"1", "2"}});
  CHECK(cells(lines("txt", "a b\n1\t2\n")) == Rows{{"a b"}, {"1\t2"}});
  expect_error("E_DATA_EMPTY", "no rows", [&] { lines("lines", "\n \n"); });
  expect_error("E_DATA_LINE", "t.txt:2: the line has 16777217 bytes",
               [&] { lines("lines", "x\n" + std::string(16777217, 'a')); });
  expect_error("E_DATA_CSV", "t.csv:2:3: a field of more than 16777216 bytes begins here",
               [&] { csv("a,b\nx,\"" + std::string(16777300, 'a') + "\",1\n"); });
}

TEST_CASE("columns by number have no header, unless it has such names") {
  TableOptions o;
  o.wanted = {"3", "1"};
  CHECK(cells(tsv("gj04\t1\t\tOur friends\ngj04\t0\t*\tBooks sent\n", o)).size() == 2);  // 1 is no column name
  CHECK(tsv("gj04\t1\t\tOur friends\n", o).columns() == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(tsv("0\t1\t2\t3\na\tb\tc\td\n", o).rows() == 1);
  o.wanted = {"3", "label"};
  CHECK(tsv("a\tb\nx\ty\n", o).columns() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("several files are one table") {
  const TempDir f;
  write(f / "a.csv", "x,y\n1,2\n");
  write(f / "b-2.csv", "y,x\n4,3\n");
  write(f / "b-10.csv", "y,x\n6,5\n\n8,7\n");
  const Table t = Table::read(f / "a.csv" + "," + (f / "b-*.csv"));
  CHECK(cells(t) == Rows{{"1", "2"}, {"5", "6"}, {"7", "8"}, {"3", "4"}});
  CHECK(t.where(2) == (f / "b-10.csv") + ":4");
  CHECK(t.where(3) == (f / "b-2.csv") + ":2");
  write(f / "c.csv", "x,z\n1,2\n");
  expect_error("E_DATA_COLUMN", "c.csv:1: has a column 'z', unlike",
               [&] { Table::read(f / "a.csv" + "," + (f / "c.csv")); });
  expect_error(
      "E_FILE_MISSING", "no file matches", [&] { Table::read(f / "q*.csv"); }, Exit::usage);
  write(f / "a.jsonl", "{\"x\": 1}\n");
  write(f / "b.jsonl", "{\"y\": 2, \"x\": \"3\"}\n");
  const Table j = Table::read(f / "?.jsonl");
  CHECK(j.columns() == std::vector<std::string>{"x", "y"});
  CHECK_FALSE(j.has(0, 1));
  CHECK(j.text(1, 0) == "3");
  CHECK(j.is_literal(0, 0));
  CHECK_FALSE(j.is_literal(1, 0));
  write(f / "with,comma.csv", "x\n1\n");
  CHECK(Table::read(f / "with,comma.csv").rows() == 1);
}

TEST_CASE("gzip is read, and what is no text refused") {
  const TempDir f;
  const auto gzip = [](const std::string& text) {
    std::string out(text.size() + 1000, '\0');
    z_stream z{};
    REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
  };
  std::string text = "a,b\n";
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + ",x\n";
  const std::string packed = gzip(text);
  write(f / "t.csv.gz", packed);
  const Table t = Table::read(f / "t.csv.gz");
  CHECK(t.rows() == 50000);
  CHECK(t.text(49999, 0) == "49999");
  write(f / "t.csv", packed);  // compression is recognized by content, not by the file's name
  CHECK(Table::read(f / "t.csv").rows() == 50000);
  write(f / "two.csv.gz", gzip("a\n1\n") + gzip("2\n") + std::string(512, '\0'));  // two members, padded with zeros
  CHECK(cells(Table::read(f / "two.csv.gz")) == Rows{{"1"}, {"2"}});
  write(f / "cut.csv.gz", packed.substr(0, packed.size() / 2));
  expect_error("E_DATA_GZIP", "ends in the middle", [&] { Table::read(f / "cut.csv.gz"); });
  std::string wrong = packed;
  for (size_t i = 100; i < 120; ++i) wrong[i] = static_cast<char>(~wrong[i]);
  write(f / "bad.csv.gz", wrong);
  expect_error("E_DATA_GZIP", "is damaged at byte", [&] { Table::read(f / "bad.csv.gz"); });
  write(f / "tail.csv.gz", packed + "not gzip");
  expect_error("E_DATA_GZIP", "is damaged", [&] { Table::read(f / "tail.csv.gz"); });
  write(f / "head.csv.gz", "\x1f\x8b");
  expect_error("E_DATA_GZIP", "ends in the middle", [&] { Table::read(f / "head.csv.gz"); });
}

TEST_CASE("a decompression bomb is refused before it fills the memory", "[bomb]") {
  const TempDir f;
  std::string packed(1u << 20, '\0');
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string block(1u << 20, 'a');
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  for (int i = 0; i < 300; ++i) {
    z.next_in = reinterpret_cast<Bytef*>(block.data());
    z.avail_in = static_cast<uInt>(block.size());
    REQUIRE(deflate(&z, i == 299 ? Z_FINISH : Z_NO_FLUSH) >= 0);
  }
  packed.resize(z.total_out);
  deflateEnd(&z);
  write(f / "bomb.csv.gz", packed);
  expect_error("E_DATA_GZIP", "holds more than 268435456 bytes", [&] { Table::read(f / "bomb.csv.gz"); });
}

TEST_CASE("texts of a column are replaced by others") {
  Table t = csv("text,label\nno,no\nb,maybe\nc,no\n");
  t.replace(1, {{"no", "negative"}, {"maybe", "m"}});
  CHECK(cells(t) == Rows{{"no", "negative"}, {"b", "m"}, {"c", "negative"}});
}

TEST_CASE("Excel's first line sep=; names the delimiter, and a header of another one has a hint at it") {
  for (const char* first : {"sep=;\n", "\"sep=;\"\r\n", "\xef\xbb\xbfsep=;\r\n", "SEP=;\r"}) {
    const Table t = csv(std::string(first) + "a;b\n1,5;x\n");
    CHECK(t.columns() == std::vector<std::string>{"a", "b"});
    CHECK(cells(t) == Rows{{"1,5", "x"}});
    CHECK(t.line(0) == 3);
  }
  CHECK(cells(csv("sep=,\na,b\n1,2\n")) == Rows{{"1", "2"}});
  CHECK(cells(csv("sep=;\na|b\n1|2\n", {.delimiter = '|'})) == Rows{{"1", "2"}});
  CHECK(cells(csv("sep=\nx\n")) == Rows{{"x"}});  // a column of this name
  const Error e = error_of([] { csv("a;b;y\n1;2;3\n").column("y"); });
  CHECK(e.hint().find("`delimiter` semicolon") != std::string::npos);
  const Error ragged = error_of([] { csv("a;b;y\n1,5;2;3\n"); });
  CHECK(ragged.hint().find("`delimiter` semicolon") != std::string::npos);
}
