// Helpers for errors that tests expect.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "base/error.h"

namespace amp::test {

// Returns the error that f throws.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
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
