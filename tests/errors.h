// Errors that tests expect.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "base/error.h"

namespace amp::test {

// The error that f ends with.
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

// f ends with an error of this id, and `part` stands in its text.
template <class F>
void expect_error(const std::string& id, const std::string& part, F&& f, Exit exit = Exit::data) {
  INFO(part);
  const Error e = error_of(f);
  CHECK(e.id() == id);
  CHECK(e.exit() == exit);
  CHECK_THAT(std::string(e.what()), Catch::Matchers::ContainsSubstring(part));
}

}  // namespace amp::test
