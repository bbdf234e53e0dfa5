// The rows of text files: which column a task reads as what, and columns by their numbers.
#include "run/data/text_rows.h"

#include <catch2/catch_all.hpp>

#include "run/spec/spec.h"
#include "tests/importer/models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Strings = std::vector<std::string>;

TEST_CASE("the first text column of a table of questions holds the questions, the second the texts") {
  const TempDir f;
  write_bytes(f / "t.csv", "where,ask,said\nin the barn,what sleeps,barn\nin the barn,which place,the barn\n");
  RunSpec spec;
  spec.data.text.text_columns = Strings{"ask", "where"};
  spec.data.label_column = "said";
  const TextRows rows = read_text_rows(spec, f / "t.csv", Task::span);
  REQUIRE(rows.key);
  REQUIRE(rows.key->questions.size() == 2);
  CHECK(rows.size() == 2);
  for (size_t r = 0; r < 2; ++r) {
    const Question& q = rows.key->questions[r];
    CHECK(q.text == Strings{"what sleeps", "which place"}[r]);
    CHECK(rows.key->passages.at(q.passage) == "in the barn");
    REQUIRE(q.answers.size() == 1);
    CHECK(q.answers[0].text == Strings{"barn", "the barn"}[r]);
  }
}

// A table whose columns are all requested by number has no header.
TEST_CASE("columns by number may be those of texts, labels, features and the target") {
  const TempDir f;
  write_bytes(f / "t.csv", "a,5,x\nb,6,y\nc,7,z\n");
  const Strings first{"0"}, second{"1"};
  const auto rows = [&](const auto& choose) {
    RunSpec spec;
    choose(spec.data);
    return read_table(spec, f / "t.csv").rows();
  };
  CHECK(rows([](DataSpec&) {}) == 2);
  CHECK(rows([&](DataSpec& d) { d.text.text_columns = first; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.label_column = "1"; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.tables.categorical = first; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.tables.continuous = second; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.tables.date = first; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.tables.target = "1"; }) == 3);
  CHECK(rows([&](DataSpec& d) { d.text.text_columns = Strings{"a"}, d.label_column = "1"; }) == 2);
}
