// A verb run inside the test as the command line would run it.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_helper.h"
#include "tools/run_verb.h"

namespace amp::test {

struct Said {
  std::string out, err;
};

// What it printed; it must end with 0, or throw.
inline Said run_verb(const std::vector<std::string>& words) {
  const cli::Options opts = ::parse(words);
  std::ostringstream out, err;
  auto *const cout = std::cout.rdbuf(out.rdbuf()), *const cerr = std::cerr.rdbuf(err.rdbuf());
  const auto restore = [&] {
    std::cout.rdbuf(cout);
    std::cerr.rdbuf(cerr);
  };
  try {
    const int code = amp::run_verb(opts);
    restore();
    CHECK(code == 0);
  } catch (...) {
    restore();
    throw;
  }
  return {out.str(), err.str()};
}

}  // namespace amp::test
