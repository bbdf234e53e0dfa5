// Philox4x32-10 against the known answers published with Random123 (kat_vectors).
#include "base/philox.h"

#include <catch2/catch_all.hpp>

using namespace amp;

static std::vector<uint32_t> words(const PhiloxBlock& b) { return {b.v, b.v + 4}; }

TEST_CASE("philox4x32-10 equals the published vectors") {
  CHECK(words(philox4x32({{0, 0, 0, 0}}, 0, 0)) ==
        std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(words(philox4x32({{ones, ones, ones, ones}}, ones, ones)) ==
        std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)) ==
        std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(words(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)) ==
        std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox helpers keep their ranges") {
  CHECK(philox_uniform(0) == 0.0f);
  CHECK(philox_uniform(0xffffffff) < 1.0f);
  CHECK(philox_uniform(0x80000000) == 0.5f);
  CHECK(philox_below(0, 0, 10) == 0);
  CHECK(philox_below(0xffffffff, 0xffffffff, 10) == 9);
  CHECK(philox_below(0x80000000, 0, 10) == 5);
}
