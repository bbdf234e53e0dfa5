#include "backend/cpu/quantised.h"

#include <algorithm>
#include <cmath>

namespace amp {

namespace {

// bitsandbytes' create_dynamic_map: for each of seven exponents the middles of evenly spaced fractions from 0.1 to 1.
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

float quantise_block(const std::array<float, 256>& map, const float* x, int64_t n, uint8_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  const float inverse = largest > 0 ? 1.0f / largest : 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float y = std::clamp(x[i] * inverse, -1.0f, 1.0f);
    // the nearest of the two numbers around y, the smaller of two as near
    const auto above = std::lower_bound(map.begin(), map.end(), y);
    auto at = above == map.end() ? above - 1 : above;
    if (at != map.begin() && y - *(at - 1) <= *at - y) --at;
    codes[i] = static_cast<uint8_t>(at - map.begin());
  }
  return largest;
}

void dequantise_block(const std::array<float, 256>& map, float largest, const uint8_t* codes, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = map[codes[i]] * largest;
}

QuantisedMoment::QuantisedMoment(const std::vector<UpdateSpan>& spans, bool is_signed) : map_(dynamic_map(is_signed)) {
  int64_t codes = 0, blocks = 0, wide = 0;
  for (const UpdateSpan& s : spans) {
    Place p;
    if (s.count < kLeastQuantised) {
      p.wide = wide;
      wide += s.count;
    } else {
      p.codes = codes;
      p.blocks = blocks;
      codes += s.count;
      blocks += (s.count + kQuantisedBlock - 1) / kQuantisedBlock;
    }
    places_.push_back(p);
  }
  codes_ = HostTensor::empty(DType::u8, {codes});
  // the code of 0
  const auto zero = static_cast<int>(std::find(map_.begin(), map_.end(), 0.0f) - map_.begin());
  std::fill_n(static_cast<uint8_t*>(codes_.mutable_data()), codes, static_cast<uint8_t>(zero));
  largest_ = HostTensor::zeros(DType::f32, {blocks});
  wide_ = HostTensor::zeros(DType::f32, {wide});
}

void QuantisedMoment::load(size_t span, int64_t at, int64_t count, float* x) const {
  const Place& p = places_[span];
  if (p.wide >= 0) {
    std::copy_n(wide_.as<float>() + p.wide + at, count, x);
    return;
  }
  const auto* codes = static_cast<const uint8_t*>(codes_.data()) + p.codes + at;
  const float* largest = largest_.as<float>() + p.blocks + at / kQuantisedBlock;
  for (int64_t i = 0; i < count; i += kQuantisedBlock)
    dequantise_block(map_, *largest++, codes + i, std::min(kQuantisedBlock, count - i), x + i);
}

void QuantisedMoment::store(size_t span, int64_t at, int64_t count, const float* x) {
  const Place& p = places_[span];
  if (p.wide >= 0) {
    std::copy_n(x, count, wide_.as_mutable<float>() + p.wide + at);
    return;
  }
  auto* codes = static_cast<uint8_t*>(codes_.mutable_data()) + p.codes + at;
  float* largest = largest_.as_mutable<float>() + p.blocks + at / kQuantisedBlock;
  for (int64_t i = 0; i < count; i += kQuantisedBlock)
    *largest++ = quantise_block(map_, x + i, std::min(kQuantisedBlock, count - i), codes + i);
}

}  // namespace amp
