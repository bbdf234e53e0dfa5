// Verbs run in this process, for tests.
#pragma once

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/cli/cli_helper.h"
#include "tools/verbs.h"

namespace amp::test {

struct Said {
  int code = -1;
  std::string out, err;        // standard output and error
  std::string id, fact, hint;  // of the error it ended with
};

inline Said run_verb(const std::vector<std::string>& words) {
  Said s;
  std::ostringstream out, err;
  auto *const cout = std::cout.rdbuf(out.rdbuf()), *const cerr = std::cerr.rdbuf(err.rdbuf());
  try {
    const cli::Options opts = ::parse(words);
    s.code = opts.verb == cli::Verb::grad      ? run_grad(opts)
             : opts.verb == cli::Verb::eval    ? run_eval(opts)
             : opts.verb == cli::Verb::predict ? run_predict(opts)
                                               : run_train(opts);
  } catch (const Error& e) {
    s.code = static_cast<int>(e.exit());
    s.id = e.id();
    s.fact = e.fact();
    s.hint = e.hint();
  }
  std::cout.rdbuf(cout);
  std::cerr.rdbuf(cerr);
  s.out = out.str();
  s.err = err.str();
  return s;
}

inline std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

}  // namespace amp::test
