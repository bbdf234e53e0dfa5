// Mistaken and malicious input files. Each reader refuses them with exit 5, the position and a reason, in bounded
// memory. Each row of the table is a file.
#include <sys/resource.h>

#include <catch2/catch_all.hpp>
#include <fstream>

#include "base/error.h"
#include "data/labels.h"
#include "data/questions.h"
#include "data/table.h"
#include "data/tagged_text.h"
#include "data/text_file.h"
#include "tests/support.h"

using namespace amp;

namespace {

struct Bad {
  const char* file;
  std::string bytes;
  const char* id;
  const char* place;  // the position, printed after the file's name
  const char* reason;
};

std::string times(int64_t n, const std::string& text) {
  std::string out;
  for (int64_t i = 0; i < n; ++i) out += text;
  return out;
}

const std::string kHuge(size_t{17} << 20, 'x');

// Files that are read as tables. If the file is a CSV, its label column is read, too.
const std::vector<Bad> kTables = {
    {"empty.csv", "", "E_DATA_EMPTY", "", "no "},
    {"header.csv", "text,label\n", "E_DATA_EMPTY", "", "no "},
    {"rows.parquet", "PAR1....PAR1", "E_DATA_COLUMNAR", "", "a Parquet file, which is not read"},
    {"rows.pq.gz", "", "E_DATA_COLUMNAR", "", "a Parquet file"},
    {"rows.arrow", "", "E_DATA_COLUMNAR", "", "an Arrow file"},
    {"rows.feather", "", "E_DATA_COLUMNAR", "", "a Feather file"},
    {"rows.orc", "", "E_DATA_COLUMNAR", "", "an ORC file"},
    {"parquet.csv", "PAR1....PAR1", "E_DATA_COLUMNAR", "", "a Parquet file"},
    {"arrow.jsonl", std::string("ARROW1\0\0..ARROW1", 16), "E_DATA_COLUMNAR", "", "an Arrow file"},
    {"bom_only.csv", "\xef\xbb\xbf", "E_DATA_EMPTY", "", "no "},
    {"blank.jsonl", "\n \r\n\n", "E_DATA_EMPTY", "", "no rows"},
    {"none.json", "[]", "E_DATA_EMPTY", "", "no rows"},
    {"utf16.csv", std::string("\xff\xfet\0e\0", 6), "E_DATA_UTF8", "", "UTF-16"},
    {"utf32.csv", std::string("\xff\xfe\0\0t\0\0\0", 8), "E_DATA_UTF8", "", "UTF-"},
    {"latin1.csv", "text,label\ncaf\xe9,a\n", "E_DATA_UTF8", ":2:4", "bytes e9"},
    {"surrogate.csv", "text\n\xed\xa0\x80\n", "E_DATA_UTF8", ":2:1", "bytes ed"},
    {"overlong.csv", "text\nab\xc0\xaf\n", "E_DATA_UTF8", ":2:3", "bytes c0"},
    {"cut.csv", "text\nab\xe2\x82", "E_DATA_UTF8", ":2:3", "bytes e2"},
    {"nul.csv", std::string("text\na\0b\n", 9), "E_DATA_UTF8", ":2", "NUL"},
    {"quote.csv", "text,label\n\"a,b\nc,d\n", "E_DATA_CSV", ":2", "quot"},
    {"ragged.csv", "text,label\r\na,b\r\nc\r\n", "E_DATA_CSV", ":3", "1"},
    {"wide.csv", "text,label\na,b\nc,d,e\n", "E_DATA_CSV", ":3", "3"},
    {"twice.csv", "text,text\na,b\n", "E_DATA_COLUMN", ":1", "text"},
    {"field.csv", "text\n" + kHuge + "\n", "E_DATA_CSV", ":2", "bytes"},
    {"line.jsonl", "{\"a\": 1}\n{\"a\": \"" + kHuge + "\"}\n", "E_DATA_JSON", ":2:1", "bytes"},
    {"cut.jsonl", "{\"a\": 1}\n{\"a\": \n", "E_DATA_JSON", ":2:7", "not valid JSON"},
    {"quote.jsonl", "{\"a\": \"b}\n{\"a\": 1}\n", "E_DATA_JSON", ":1:10", "not valid JSON"},
    {"surrogate.jsonl", "{\"a\": \"\\ud800\"}\n", "E_DATA_JSON", ":1:14", "not valid JSON"},
    {"number.jsonl", "{\"a\": 1}\n7\n", "E_DATA_JSON", ":2:1", "a JSON number"},
    {"deep.jsonl", "{\"a\": " + times(100000, "[") + times(100000, "]") + "}\n", "E_DATA_JSON", ":1:1", "deeper"},
    {"array.json", "[{\"a\": 1},\n {\"a\": 2]", "E_DATA_JSON", ":2:2", "no comma and no end"},
    {"open.json", "[{\"a\": 1},\n  {\"a\": 2},\n", "E_DATA_JSON", "", "no comma and no end"},
    {"comma.json", "[{\"a\": 1}\n {\"a\": 2}]", "E_DATA_JSON", ":2:2", "not valid JSON"},
    {"two.json", "[{\"a\": 1}]\n[{\"a\": 2}]", "E_DATA_JSON", ":2:1", "something follows"},
    {"mixed.json", "[{\"a\": 1},\n  5]", "E_DATA_JSON", ":2:3", "a JSON number"},
    {"text.json", "[{\"a\": \"b},\n{\"a\": 1}]", "E_DATA_JSON", ":1:2", "no comma and no end"},
    {"deep.json", "[" + times(200000, "{\"a\":["), "E_DATA_JSON", ":1:2", "no comma and no end"},
};

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

template <class F>
void refused(const Bad& bad, const std::string& path, F&& read) {
  CAPTURE(bad.file);
  try {
    read();
    FAIL("was read");
  } catch (const Error& e) {
    CAPTURE(e.fact());
    CHECK(e.exit() == Exit::data);
    CHECK(e.id() == bad.id);
    CHECK(e.fact().find(path + bad.place) != std::string::npos);
    CHECK(e.fact().find(bad.reason) != std::string::npos);
  }
}

int64_t peak_bytes() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return u.ru_maxrss * int64_t{1024};
}

}  // namespace

TEST_CASE("tables that cannot be read are refused with their place", "[bad]") {
  const int64_t before = peak_bytes();
  for (const Bad& bad : kTables) {
    const test::TempDir dir;
    const std::string path = dir / bad.file;
    write(path, bad.bytes);
    refused(bad, path, [&] { Table::read(path); });
  }
  CHECK(peak_bytes() - before < int64_t{512} << 20);
}

TEST_CASE("questions and tagged words that cannot be read are refused with their place", "[bad]") {
  const std::vector<Bad> questions = {
      {"cut.json", "{\"data\": [", "E_DATA_JSON", "", "parse error"},
      {"list.json", "[]", "E_DATA_JSON", "", "not SQuAD's"},
      {"none.json", "{\"data\": []}", "E_DATA_EMPTY", "", "no question"},
      {"text.json",
       R"({"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"7","question":"q","answers":[{"text":"x","answer_start":0}]}]}]}]})",
       "E_DATA_LABEL", "", "question '7'"},
      {"start.json",
       R"({"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"7","question":"q","answers":[{"text":"a","answer_start":-1}]}]}]}]})",
       "E_DATA_LABEL", "", "at character -1"},
      {"far.json",
       R"({"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"7","question":"q","answers":[{"text":"a","answer_start":9000000000}]}]}]}]})",
       "E_DATA_LABEL", "", "at character 9000000000"},
      {"huge.json",
       R"({"data":[{"paragraphs":[{"context":"abc","qas":[{"id":"7","question":"q","answers":[{"text":"a","answer_start":9223372036854775807}]}]}]}]})",
       "E_DATA_LABEL", "", "at character 9223372036854775807"},
      {"latin1.json", "{\"data\": \"\xe9\"}", "E_DATA_UTF8", ":1", "bytes e9"},
      {"deep.json",
       cat(R"({"data":[{"paragraphs":[{"context":"abc","qas":[{"id":)", times(100000, "["), times(100000, "]"),
           "}]}]}]}"),
       "E_DATA_JSON", "", "nests deeper than 100"},
  };
  for (const Bad& bad : questions) refused(bad, bad.file, [&] { parse_squad(bad.bytes, bad.file); });
  const std::vector<Bad> tagged = {
      {"empty.conll", "", "E_DATA_EMPTY", "", "no "},
      {"blank.conll", "\n\n", "E_DATA_EMPTY", "", "no "},
      {"untagged.conll", "a O\nb\n", "E_DATA_LABEL", ":2", "tag"},
      {"latin1.conll", "a O\n\xe9 O\n", "E_DATA_UTF8", ":2:1", "bytes e9"},
  };
  for (const Bad& bad : tagged) refused(bad, bad.file, [&] { parse_conll(bad.bytes, bad.file); });
}

TEST_CASE("labels that are none are refused with their place", "[bad]") {
  const test::TempDir dir;
  const auto table = [&](const std::string& bytes) {
    write(dir / "t.csv", bytes);
    return Table::read(dir / "t.csv");
  };
  const std::vector<std::string> known = {"a", "b"};
  const std::string path = dir / "t.csv";
  refused({"new label", "", "E_DATA_LABEL_NEW", ":3", "'c'"}, path,
          [&] { class_ids(table("text,label\nx,a\ny,c\n"), "label", known); });
  refused({"no label", "", "E_DATA_LABEL", ":3", "label"}, path,
          [&] { find_classes(table("text,label\nx,a\ny,\n"), "label"); });
  refused({"one class", "", "E_DATA_LABEL", "", "a"}, path,
          [&] { find_classes(table("text,label\nx,a\ny,a\n"), "label"); });
  for (const char* const value : {"nan", "inf", "1e400", "0x10", "1,5", "one"})
    refused({value, "", "E_DATA_LABEL", ":2", "number"}, path,
            [&] { label_numbers(table(cat("text,label\nx,\"", value, "\"\n")), "label"); });
}

TEST_CASE("byte order marks, line ends and arrays are read alike", "[bad]") {
  const test::TempDir dir;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.csv", "\xef\xbb\xbftext,label\r\nx,1\r\n\r\ny,2\r\n"},
      {"b.csv", "text,label\nx,1\ny,2"},
      {"c.jsonl", "\xef\xbb\xbf{\"text\": \"x\", \"label\": 1}\r\n\r\n{\"text\": \"y\", \"label\": 2}\r\n"},
      {"d.json", "\xef\xbb\xbf[{\"text\": \"x\", \"label\": 1},\r\n\r\n {\"text\": \"y\", \"label\": 2}]\r\n"},
      {"e.json", "[{\"text\":\"x\",\"label\":1},{\"text\":\"y\",\"label\":2}]"},
      {"f.json",
       "{\"version\": \"1, [{\\\"\", \"data\": [\n {\"text\": \"x\", \"label\": 1},\n"
       " {\"text\": \"y\", \"label\": 2}\n], \"more\": {\"data\": [3]}}\n"},
      {"g.json",
       "{\n \"text\": \"no rows\", \"data\": [{\"text\": \"x\", \"label\": 1}, {\"text\": \"y\", \"label\": 2}]}"},
      {"h.jsonl", "{\"text\": \"x\", \"label\": 1, \"data\": [{}]}\n{\"text\": \"y\", \"label\": 2}\n"},
  };
  for (const auto& [name, bytes] : files) {
    CAPTURE(name);
    write(dir / name, bytes);
    const Table t = Table::read(dir / name);
    REQUIRE(t.rows() == 2);
    CHECK(t.text(0, t.column("text")) == "x");
    CHECK(t.text(1, t.column("text")) == "y");
    CHECK(label_numbers(t, "label") == std::vector<float>{1, 2});
  }
  CHECK(Table::read(dir / "d.json").line(1) == 3);
  CHECK(Table::read(dir / "f.json").line(1) == 3);
}
