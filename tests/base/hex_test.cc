#include "base/hex.h"

#include <catch2/catch_all.hpp>

using namespace amp;

TEST_CASE("bytes return from hexadecimal digits") {
  uint8_t all[256], back[256] = {};
  for (int i = 0; i < 256; ++i) all[i] = static_cast<uint8_t>(i);
  const std::string text = to_hex(all);
  CHECK(text.substr(0, 6) == "000102");
  CHECK(text.substr(508) == "feff");
  REQUIRE(from_hex(text, back));
  CHECK(std::equal(all, all + 256, back));
}

TEST_CASE("text that is no hexadecimal of as many bytes is refused, and nothing is written") {
  uint8_t bytes[2] = {7, 7};
  for (const char* text : {"", "3", "00", "000", "00010", "000102", "0G00", "00FF", " 001"}) {
    INFO(text);
    CHECK_FALSE(from_hex(text, bytes));
  }
  CHECK((bytes[0] == 7 && bytes[1] == 7));
}
