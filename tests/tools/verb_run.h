// Runs verbs of the command line in this process.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/cli/cli_helper.h"
#include "tests/errors.h"
#include "tools/cli/error_line.h"
#include "tools/cli/flag_text.h"
#include "tools/run_verb.h"

namespace amp::test {

struct Said {
  int code = -1;
  std::string out, err;        // standard output and error
  std::string id, fact, hint;  // parts of the error, if there was one
  std::exception_ptr error;
};

// Checks the JSON line of an error, the last line that the program prints.
inline void check_line(const Error& error) {
  std::ostringstream text;
  cli::print_error_line(text, error);
  const std::string said = text.str();
  const auto line = nlohmann::json::parse(said.substr(said.rfind('\n', said.size() - 2) + 1));
  CHECK(line["id"] == error.id());
  CHECK(line["exit"] == static_cast<int>(error.exit()));
  CHECK_FALSE(line["error"].get<std::string>().empty());
}

inline Said run_verb(const std::vector<std::string>& words) {
  Said s;
  std::ostringstream out, err;
  auto *const cout = std::cout.rdbuf(out.rdbuf()), *const cerr = std::cerr.rdbuf(err.rdbuf());
  try {
    for (const cli::Command& command : ::commands_of(words)) {
      s.code = amp::run_command(command);
      if (s.code != 0) break;
    }
  } catch (const Error& error) {
    const Error e = cli::with_flags(error);  // as the program prints it
    check_exit(error);
    check_line(error);
    s.error = std::make_exception_ptr(e);
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

// Runs a verb as run_verb() does. Requires exit code 0; an error is thrown.
inline Said must_run(const std::vector<std::string>& words) {
  const Said s = run_verb(words);
  if (s.error) std::rethrow_exception(s.error);
  CHECK(s.code == 0);
  return s;
}

inline std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

}  // namespace amp::test
