// Spellings of labels: spaces, capitals, lists as text, numbers with decimal commas.
#include "data/label_spelling.h"

#include <catch2/catch_all.hpp>
#include <fstream>

#include "data/features/decimal.h"
#include "data/labels.h"
#include "data/reader.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

namespace {

Table spelled(const std::string& bytes, char delimiter = 0) {
  return Table::parse(bytes, "t.csv", reader_named("csv"), {.delimiter = delimiter});
}

std::optional<Names> elements(const std::string& text) {
  Names out;
  return parse_list_text(text, out) ? std::optional(out) : std::nullopt;
}

Names column(const Table& t, size_t c) {
  Names out;
  for (int64_t r = 0; r < t.rows(); ++r) out.emplace_back(t.text(r, c));
  return out;
}

}  // namespace

TEST_CASE("lists as Python, NumPy and JSON print them are lists of labels") {
  // Each text is Python 3.11's output for the list, tuple, set or numpy array next to it.
  CHECK(elements("['a', 'b']") == Names{"a", "b"});
  CHECK(elements("[\"it's\", 'b c']") == Names{"it's", "b c"});
  CHECK(elements("['say \"x\"', 'it\\'s \"y\"']") == Names{"say \"x\"", "it's \"y\""});
  CHECK(elements("['a' 'b'\n 'c']") == Names{"a", "b", "c"});
  CHECK(elements("array(['a', 'b'], dtype=object)") == Names{"a", "b"});
  CHECK(elements("('a',)") == Names{"a"});
  CHECK(elements("{'b', 'a'}") == Names{"b", "a"});
  CHECK(elements("[u'a', 'caf\\xe9', '\\u4e2d']") == Names{"a", "caf\xc3\xa9", "\xe4\xb8\xad"});
  CHECK(elements("[]") == Names{});
  CHECK(elements("[1, 2]") == Names{"1", "2"});
  CHECK(elements("[1 2]") == Names{"1", "2"});
  CHECK(elements("[red, dark green]") == Names{"red", "dark green"});
  CHECK_FALSE(elements("['a', 'b"));
  CHECK_FALSE(elements("['a', ['b']]"));
  CHECK_FALSE(elements("['a\\q']"));
  CHECK_FALSE(looks_like_list("(other)"));
  CHECK_FALSE(looks_like_list("a|b"));
}

TEST_CASE("a column of list texts is read as sets, and what cannot be read is refused by its row") {
  const Table t = spelled("y\n\"['b', 'a']\"\n\"['c']\"\n[]\n\"a, c\"\n");
  const auto sets = label_sets(t, "y");
  CHECK(sets == std::vector<Names>{{"b", "a"}, {"c"}, {}, {"a", "c"}});
  CHECK(find_names(sets) == Names{"a", "b", "c"});
  expect_error("E_DATA_LABEL", "t.csv:3", [] { label_sets(spelled("y\n\"['a']\"\n\"['b', ]x]\"\n"), "y"); });
  expect_error("E_DATA_LABEL", "0 or 1 for each of 3 labels",
               [] { label_sets(spelled("y\n\"[0, 1, 0]\"\n\"[1, 1, 0]\"\n"), "y"); });
  CHECK(label_sets(spelled("y\n\"[0, 1]\"\n\"[1]\"\n"), "y") == std::vector<Names>{{"0", "1"}, {"1"}});
}

TEST_CASE(
    "spaces around labels are dropped and told; labels that differ in capitals are named with the flags to merge") {
  Table t = spelled("t,y\na, negative \nb,negative\nc,Negative\n");
  trim_labels(t, "y");
  CHECK(column(t, 1) == Names{"negative", "negative", "Negative"});
  REQUIRE(t.notes().size() == 1);
  CHECK_THAT(t.notes()[0], ContainsSubstring("1 label has spaces around"));
  // The note names the file of the first such label.
  const test::TempDir f;
  std::ofstream(f / "first.csv") << "t,y\na,b\n";
  std::ofstream(f / "second.csv") << "t,y\na, c\n";
  Table two = Table::read((f / "first.csv") + "," + (f / "second.csv"));
  trim_labels(two, "y");
  CHECK_THAT(two.notes().at(0), Catch::Matchers::StartsWith((f / "second.csv") + ": 1 label"));
  CHECK(column(t, 0) == Names{"a", "b", "c"});
  const Names told = suspicious_labels({"Negative", "dark  green", "dark green", "negative", "red"});
  REQUIRE(told.size() == 2);
  CHECK_THAT(told[0], ContainsSubstring("'dark  green', 'dark green'"));
  CHECK_THAT(told[1], ContainsSubstring("`label_map` 'Negative=negative' makes them one"));
  CHECK(suspicious_labels({"a", "b", "ab"}).empty());
  CHECK_THAT(suspicious_labels({"['a']", "['a', 'b']"}).at(0), ContainsSubstring("`task` multilabel"));
}

TEST_CASE("decimal commas are read where a table shows them, and asked about where it does not") {
  const auto read = [](const std::string& bytes, DecimalMark mark, const Names& columns, char delimiter = ';') {
    Table t = spelled(bytes, delimiter);
    read_decimal_marks(t, mark, columns);
    return t;
  };
  // 0,5 cannot contain a thousands separator, so the whole table has decimal commas: 1,234 is 1.234, 1.234 is 1234.
  const Table t = read("a;b;c;d\n0,5;1,234;1.234;x,1\n-1,25e3;2;12.345.678,5;y\n;;NA;\n", DecimalMark::automatic,
                       {"a", "b", "c", "d"});
  CHECK(column(t, 0) == Names{"0.5", "-1.25e3", ""});
  CHECK(column(t, 1) == Names{"1.234", "2", ""});
  CHECK(column(t, 2) == Names{"1234", "12345678.5", "NA"});
  CHECK(column(t, 3) == Names{"x,1", "y", ""});
  CHECK_THAT(t.notes().at(0), ContainsSubstring("decimal comma in a, b, c"));
  const std::string unclear = "a;b\n1,234;1\n2,500;2\n";
  expect_error("E_DATA_NUMBER", "1,234", [&] { read(unclear, DecimalMark::automatic, {"a"}); });
  CHECK(column(read(unclear, DecimalMark::comma, {"a"}), 0) == Names{"1.234", "2.500"});
  CHECK(column(read(unclear, DecimalMark::point, {"a"}), 0) == Names{"1234", "2500"});
  CHECK(column(read(unclear, DecimalMark::automatic, {"b"}), 0) == Names{"1,234", "2,500"});
  const std::string points = "a,b\n1.5,x\n1.234,y\n";
  CHECK(column(read(points, DecimalMark::automatic, {"a", "b"}, ','), 0) == Names{"1.5", "1.234"});
}
