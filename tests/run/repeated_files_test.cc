// Files that `train` and `val` name more than once.
#include "run/data/repeated_files.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "run/spec/spec.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

static void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("a note for each file that is given twice", "[data]") {
  const TempDir f;
  fs::create_directories(f / "images/val");
  for (const char* name : {"a.csv", "b.csv"}) write_file(f / name, "text,label\n");
  fs::create_symlink(f / "a.csv", f / "link.csv");
  fs::create_hard_link(f / "b.csv", f / "same_as_b.csv");
  const auto notes = [&](const std::string& train, const std::string& val) {
    RunSpec spec;
    spec.data.train = train;
    spec.data.val = val;
    std::vector<std::string> out;
    note_repeated_files(spec, Log([&](Level level, const std::string& text) {
                          CHECK(level == Level::note);
                          out.push_back(text);
                        }));
    return out;
  };
  using Notes = std::vector<std::string>;
  const auto in = [&](const Notes& said, size_t count, const std::string& text) {
    INFO(Catch::StringMaker<Notes>::convert(said));
    REQUIRE(said.size() == count);
    CHECK_THAT(said.back(), Catch::Matchers::ContainsSubstring(text));
  };
  const std::string a = f / "a.csv", b = f / "b.csv", link = f / "link.csv";
  CHECK(notes(a + "," + b, "").empty());
  CHECK(notes(a, b).empty());
  CHECK(notes("none.csv,none.csv", "no*.csv").empty());  // files that do not exist: the reader reports them
  in(notes(a + "," + b + "," + a + "," + a, ""), 1, "`train` names '" + a + "' more than once");
  in(notes(a + "," + (f / "?.csv"), ""), 1, "a.csv' more than once");
  in(notes(a + "," + link, ""), 1, "'" + link + "' (the same as '" + a + "') more than once");
  in(notes(a, b + "," + b), 1, "`val` names '" + b + "' more than once");
  in(notes(a + "," + b, link), 1, "on which the model is trained");
  in(notes(b, f / "same_as_b.csv"), 1, "(the same as '" + b + "')");
  in(notes(f / "images", f / "images/val"), 1, "is inside '" + (f / "images"));
  in(notes(f / "images/val", (f / "images") + "/"), 1, "`train` '" + (f / "images/val") + "' is inside");
}
