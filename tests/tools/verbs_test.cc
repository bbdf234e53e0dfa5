// Tests that each verb in the table of verbs has a function, which the verb's file registers.
#include "tools/verbs.h"

#include <catch2/catch_test_macros.hpp>

#include "tools/cli/flags.h"

using namespace amp;

TEST_CASE("every verb but help and version has a body", "[verbs]") {
  for (const cli::VerbInfo& v : cli::verbs()) {
    INFO(v.name);
    CHECK((body_of(v.verb) != nullptr) == (v.verb != cli::Verb::help && v.verb != cli::Verb::version));
  }
}
