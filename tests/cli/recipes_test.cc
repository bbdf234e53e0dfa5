// The recipes under models/: each is complete, its configuration is accepted, and its flags exist.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/cli/cli_helper.h"
#include "tests/support.h"
#include "tools/cli/compat.h"
#include "tools/cli/flags.h"

using namespace amp;
using namespace amp::cli;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> recipes() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(fs::path(test::source_root()) / "models"))
    if (fs::exists(entry.path() / "run.sh")) out.push_back(entry.path());
  return out;
}

}  // namespace

TEST_CASE("a recipe has a page, a configuration, and a script that can be run", "[recipes]") {
  REQUIRE(recipes().size() >= 2);
  for (const fs::path& r : recipes()) {
    INFO(r);
    for (const char* file : {"README.md", "config.json"}) CHECK(fs::exists(r / file));
    CHECK((fs::status(r / "run.sh").permissions() & fs::perms::others_exec) != fs::perms::none);
    if (fs::exists(r / "sample")) CHECK(text_of(r / "ATTRIBUTION.md").find("icence") != std::string::npos);
    // the overview names it
    CHECK(text_of(fs::path(test::source_root()) / "docs/recipes.md").find("models/" + r.filename().string() + "/") !=
          std::string::npos);
  }
}

TEST_CASE("a recipe's configuration is taken as it is", "[recipes]") {
  for (const fs::path& r : recipes()) {
    INFO(r);
    CHECK_NOTHROW(train({"--val", "v.csv", "--config", (r / "config.json").string()}));
  }
}

TEST_CASE("flags of a recipe's script and page exist", "[recipes]") {
  std::set<std::string> known{"--help", "--full", "--precisions"};  // the script's own (models/recipe.sh)
  for (const Flag& f : flags()) known.insert("--" + std::string(f.name));
  for (const ForeignFlag& f : paddle_flags()) known.insert("--" + std::string(f.name));  // after --compat paddle
  const std::regex flag(R"((^|[\s`'"(])(--[a-z][a-z0-9_]*))");
  for (const fs::path& r : recipes()) {
    for (const char* file : {"run.sh", "README.md"}) {
      const std::string text = text_of(r / file);
      for (std::sregex_iterator m(text.begin(), text.end(), flag), end; m != end; ++m) {
        INFO(r / file << " names " << (*m)[2]);
        CHECK(known.contains((*m)[2].str()));
      }
    }
  }
}

TEST_CASE("the samples of all recipes are small", "[recipes]") {
  uintmax_t bytes = 0;
  for (const fs::path& r : recipes()) {
    if (!fs::exists(r / "sample")) continue;
    for (const auto& entry : fs::recursive_directory_iterator(r / "sample"))
      if (entry.is_regular_file()) bytes += entry.file_size();
  }
  CHECK(bytes > 0);
  CHECK(bytes < 6'000'000);
}
