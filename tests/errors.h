// Helpers for errors that tests expect.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "base/error.h"
#include "base/error_table.h"

namespace amp::test {

// Checks that the exit code of an error is that of its id in base/errors.txt.
inline void check_exit(const Error& e) {
  const ErrorEntry* const entry = find_error(e.id());
  INFO(e.id() << ": " << e.what());
  CHECK((entry && entry->exit == std::to_string(static_cast<int>(e.exit()))));
}

// Returns the error that f throws, which must have an entry in base/errors.txt.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    check_exit(e);
    return e;
  }
  FAIL("no error");
  return Error(Exit::ok, "", "");
}

// Checks that f throws an error with this id, whose text contains `part`.
template <class F>
void expect_error(const std::string& id, const std::string& part, F&& f, Exit exit = Exit::data) {
  INFO(part);
  const Error e = error_of(f);
  CHECK(e.id() == id);
  CHECK(e.exit() == exit);
  CHECK_THAT(std::string(e.what()), Catch::Matchers::ContainsSubstring(part));
}

}  // namespace amp::test
