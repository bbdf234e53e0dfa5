// Values that resemble learned weights, and a table of positions.
#pragma once

#include <cmath>
#include <cstdint>

namespace amp::test {

inline double sinusoid(int64_t i) {
  return std::sin(static_cast<double>(i / 8) * std::pow(0.2, static_cast<double>(i % 4)) + (i % 8 < 4 ? 0 : 1.5707963));
}
inline double learned(int64_t i) {
  return std::sin(12.9898 * static_cast<double>(i + 1) * static_cast<double>(i + 3)) * 0.7;
}

}  // namespace amp::test
