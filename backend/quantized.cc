#include "backend/quantized.h"

#include <algorithm>
#include <cmath>

namespace amp {

namespace {

// Returns the map of bitsandbytes' create_dynamic_map(): 0, 1 and, for each of seven powers of 10, the midpoints of
// evenly spaced fractions from 0.1 to 1. A signed map also contains the negative midpoints.
std::array<float, 256> make_map(bool is_signed) {
  std::vector<float> data{0, 1};
  for (int i = 0; i < 7; ++i) {
    const int fractions = 1 << (is_signed ? i : i + 1);
    const double power = std::pow(10.0, i - 6), width = 0.9 / fractions;
    for (int k = 0; k < fractions; ++k) {
      const auto middle = static_cast<float>(power * (0.1 + width * (k + 0.5)));
      data.push_back(middle);
      if (is_signed) data.push_back(-middle);
    }
  }
  std::sort(data.begin(), data.end());
  std::array<float, 256> out{};
  check(data.size() == out.size(), "a map of 256 numbers");
  std::copy(data.begin(), data.end(), out.begin());
  return out;
}

}  // namespace

const std::array<float, 256>& dynamic_map(bool is_signed) {
  static const std::array<float, 256> maps[2] = {make_map(false), make_map(true)};
  return maps[is_signed ? 1 : 0];
}

uint8_t code_of_zero(bool is_signed) {
  const std::array<float, 256>& map = dynamic_map(is_signed);
  return static_cast<uint8_t>(std::find(map.begin(), map.end(), 0.0f) - map.begin());
}

QuantizedLayout::QuantizedLayout(const std::vector<UpdateSpan>& spans) {
  for (const UpdateSpan& s : spans) {
    Place p;
    if (s.count < kLeastQuantized) {
      p.wide = wide;
      wide += s.count;
    } else {
      p.codes = codes;
      p.blocks = blocks;
      codes += s.count;
      blocks += (s.count + kQuantizedBlock - 1) / kQuantizedBlock;
    }
    places.push_back(p);
  }
}

std::array<const char*, 3> QuantizedLayout::names(int moment) {
  return moment == 0 ? std::array{"m8/codes", "m8/largest", "m8/small tensors"}
                     : std::array{"v8/codes", "v8/largest", "v8/small tensors"};
}

}  // namespace amp
