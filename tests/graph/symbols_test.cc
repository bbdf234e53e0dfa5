// Expressions of symbolic dimensions.
#include "graph/symbols.h"

#include <catch2/catch_test_macros.hpp>

using namespace amp;

TEST_CASE("sums, differences and products of symbols are evaluated from their parts", "[symbols]") {
  SymbolSizes s;
  s.set("past_sequence_length", 0);
  s.set("sequence_length", 7);
  s.set("sequence_length", 8);  // ignored: the first size is kept
  s.set("a + b", 5);            // ignored: an expression is not a symbol
  CHECK(s.of("sequence_length") == 7);
  CHECK(s.of("past_sequence_length + sequence_length") == 7);
  CHECK(s.of("sequence_length+1") == 8);
  CHECK(s.of("sequence_length - 1 + 3") == 9);
  CHECK(s.of("1 + 2*sequence_length") == 15);
  CHECK_FALSE(s.of("a + b"));
  CHECK_FALSE(s.of("sequence_length + unknown"));
  CHECK_FALSE(s.of("past_sequence_length - 1"));
  CHECK_FALSE(s.of("99999999999 * 99999999999"));
  CHECK_FALSE(s.of(""));
  CHECK_FALSE(s.of("-"));
  CHECK_FALSE(s.of("sequence_length +"));
}
