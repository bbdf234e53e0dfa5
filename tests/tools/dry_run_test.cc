// --dry_run: the memory bill, and nothing written.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "tests/cli/cli_helper.h"
#include "tools/verbs.h"

using namespace amp;

TEST_CASE("a dry run prints the memory bill and writes nothing") {
  namespace fs = std::filesystem;
  const std::string entry = std::string(TEST_DATA) + "/zoo/lenet_relu_dyn18";
  const fs::path out = fs::temp_directory_path() / "amp-dry-run-writes-nothing";
  fs::remove_all(out);
  std::ostringstream said;
  auto* const cout = std::cout.rdbuf(said.rdbuf());
  int code = -1;
  try {
    code = run_train(::parse({entry + "/model.onnx", "--train", entry + "/batch.safetensors", "--loss", "cross_entropy",
                              "--dry_run", "--device", "cpu", "--output_dir", out.string()}));
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
