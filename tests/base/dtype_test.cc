// Conversion of rows to 16 bits against conversion of single numbers.
#include "base/dtype.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "tests/errors.h"

using namespace amp;

namespace {

template <class T>
int64_t different(const std::vector<float>& x) {
  std::vector<T> rows(x.size());
  from_float(x.data(), rows.data(), static_cast<int64_t>(x.size()));
  int64_t n = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const T one(x[i]);
    const float a = static_cast<float>(rows[i]), b = static_cast<float>(one);
    n += rows[i].bits != one.bits && (a == a || b == b);  // the payload of a NaN does not matter
  }
  return n;
}

}  // namespace

TEST_CASE("rows are rounded to 16 bits as single numbers are") {
  // The numbers combine all upper halves of 16 bits, including those of infinities and NaN, with lower halves around
  // the rounding midpoint.
  std::vector<float> x;
  for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    for (uint32_t high = 0; high < 0x10000u; ++high) x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  for (const size_t dropped : {0, 1, 7, 15}) {  // sizes with and without a partial last vector
    x.resize(x.size() - dropped);
    CHECK(different<BFloat16>(x) == 0);
    CHECK(different<Half>(x) == 0);
  }
}

TEST_CASE("types have names") {
  for (const char* name : {"bf16", "bfloat16", "BF16"}) CHECK(dtype_from_name(name) == DType::bf16);
  test::expect_error(
      "E_DTYPE_NAME", "float8", [] { dtype_from_name("float8"); }, Exit::usage);
}
