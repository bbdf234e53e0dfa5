// --dry_run: the memory estimate is printed and no file is written.
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
}
