// The verb explain, and the table of errors that it prints.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <regex>

#include "base/error_table.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the table of errors is complete", "[errors]") {
  CHECK(error_table().size() > 200);
  for (const ErrorEntry& e : error_table()) {
    INFO(e.id);
    CHECK(find_error(e.id) == &e);
    CHECK_FALSE((e.exit.empty() || e.meaning.empty() || e.remedy.empty() || e.example.empty()));
    CHECK(e.meaning.find('\n') == std::string::npos);
  }
  CHECK(find_error("E_DATA_COLUMN")->exit == "5");
  CHECK(find_error("E_INTERRUPTED")->exit == "128+n");
  CHECK_FALSE(find_error("E_CUDA_LAUNCH")->raised_by.empty());
  CHECK(find_error("E_DATA_COLUM") == nullptr);
}

TEST_CASE("the flags and verbs of the table exist", "[errors]") {
  const std::regex flag("--([a-z_0-9]+)"), verb("`([a-z]+) [A-Z]");
  for (const ErrorEntry& e : error_table()) {
    const std::string text = e.meaning + " " + e.remedy;
    INFO(e.id << ": " << text);
    for (std::sregex_iterator it(text.begin(), text.end(), flag), end; it != end; ++it) {
      INFO(it->str());
      CHECK((it->str() == "--help" || it->str() == "--help_all" || cli::find_flag((*it)[1].str())));
    }
    for (std::sregex_iterator it(text.begin(), text.end(), verb), end; it != end; ++it)
      CHECK(cli::find_verb((*it)[1].str()) != nullptr);
  }
}

TEST_CASE("explain prints an entry, or all", "[errors]") {
  const ErrorEntry& e = *find_error("E_CKPT_SCHEDULE");
  const std::string text = must_run({"explain", e.id}).out;
  CHECK_THAT(text, ContainsSubstring("E_CKPT_SCHEDULE (exit code 6)"));
  for (const std::string& part : {e.meaning, e.remedy, e.example}) CHECK_THAT(text, ContainsSubstring(part));
  CHECK(must_run({"--explain", e.id}).out == text);
  const std::string all = must_run({"explain"}).out;
  CHECK(std::count(all.begin(), all.end(), '\n') == static_cast<std::ptrdiff_t>(error_table().size()));
  const Said unknown = run_verb({"explain", "E_DATA_COLUM"});
  CHECK(unknown.id == "E_USAGE");
  CHECK(unknown.hint == "did you mean 'E_DATA_COLUMN'?");
}
