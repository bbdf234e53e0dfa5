// Tests --dry_run: the memory estimate is printed and no file is written.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "tests/cli/cli_helper.h"
#include "tests/support.h"
#include "tools/verbs.h"

using namespace amp;

TEST_CASE("a dry run prints the memory bill and writes nothing") {
  namespace fs = std::filesystem;
  const std::string entry = test::test_data("zoo/lenet_relu_dyn18");
  const test::TempDir folder;
  const std::string out = folder / "run";
  std::ostringstream said;
  auto* const cout = std::cout.rdbuf(said.rdbuf());
  int code = -1;
  try {
    const cli::Options opts = ::parse({entry + "/model.onnx", "--train", entry + "/batch.safetensors", "--loss",
                                       "cross_entropy", "--dry_run", "--device", "cpu", "--output_dir", out});
    code = run_train(opts, Console(opts));
  } catch (...) {
    std::cout.rdbuf(cout);
    throw;
  }
  std::cout.rdbuf(cout);
  CHECK(code == 0);
  CHECK_THAT(said.str(), Catch::Matchers::ContainsSubstring("parameters") &&
                             Catch::Matchers::ContainsSubstring("activations") &&
                             Catch::Matchers::ContainsSubstring("B in all"));
  CHECK_FALSE(fs::exists(out));
  // The printed peak must be the largest of the phases listed below it. The first phase must be the sum of its parts.
  const std::string text = said.str();
  const auto number = [&](const std::string& after, size_t& at) {
    at = text.find(after, at);
    REQUIRE(at != std::string::npos);
    at += after.size();
    std::string digits;
    for (; text[at] == ',' || std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
      if (text[at] != ',') digits += text[at];
    }
    return std::stoll(digits);
  };
  size_t at = 0;
  INFO(text);
  const int64_t in_all = number("B; ", at), peak = number("the run's peak: ", at),
                trial = number("before the first step: ", at), training = number("    training: ", at),
                steps = number(" = ", at), copy = number(" + ", at), outputs = number("after the last step: ", at),
                writing = number("memory is freed: ", at), comparing = number("the written model: ", at);
  CHECK(peak == std::max({trial, training, outputs, writing, comparing}));
  CHECK(training == steps + copy);
  CHECK(steps >= in_all);  // with the constants of the file, which stay in memory
  CHECK(steps < in_all + 10000);
  CHECK(outputs < training);
  for (; text.find("--memory_budget: ", at) != std::string::npos;) CHECK(number("--memory_budget: ", at) < in_all);
}
