// Groups of samples by a column of a table, and by file.
#include "data/sample_groups.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Names = std::vector<std::string>;
using Ids = std::vector<int32_t>;

static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST_CASE("groups are a column's values, of the row that a sample is of") {
  const TempDir f;
  put(f / "t.csv", "text,language\na,fr\nb,de\nc,fr\nd,\n");
  const Table table = Table::read(f / "t.csv");
  const SampleGroups rows = group_samples(table, "language", {}, 4);
  CHECK(rows.names == Names{"", "de", "fr"});
  CHECK(rows.of == Ids{2, 1, 2, 0});
  const std::vector<int64_t> windows = {1, 1, 2};  // two samples of the second row
  CHECK(group_samples(table, "language", windows, 3).of == Ids{1, 1, 2});
  expect_error("E_DATA_COLUMN", "no column 'languages'", [&] { group_samples(table, "languages", {}, 4); });
  expect_error("E_DATA_GROUPS", "3 samples of 4 rows", [&] { group_samples(table, "language", {}, 3); });
}

TEST_CASE("files are groups by what their names differ in") {
  const TempDir f;
  for (const char* name : {"dev-de.tsv", "dev-en.tsv", "dev-es.tsv"}) put(f / name, "a\tb\n1\t2\n3\t4\n");
  const SampleGroups g = group_samples(Table::read(f / "dev-*.tsv"), "file", {}, 6);
  CHECK(g.names == Names{"de", "en", "es"});
  CHECK(g.of == Ids{0, 0, 1, 1, 2, 2});
  CHECK(group_samples(Table::read(f / "dev-de.tsv"), "file", {}, 2).names == Names{"de"});
}

TEST_CASE("a column of more values than groups is refused") {
  const TempDir f;
  std::string rows = "text,label\n";
  for (int i = 0; i < 1001; ++i) rows += std::to_string(i) + ",a\n";
  put(f / "t.csv", rows);
  expect_error("E_DATA_GROUPS", "1001 different values",
               [&] { group_samples(Table::read(f / "t.csv"), "text", {}, 1001); });
}
