#include "backend/cpu/update/quantized.h"

#include <algorithm>
#include <cmath>

namespace amp {

float quantize_block(const std::array<float, 256>& map, const float* x, int64_t n, uint8_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  for (int64_t i = 0; i < n; ++i) codes[i] = code_of(map.data(), x[i], largest);
  return largest;
}

void dequantize_block(const std::array<float, 256>& map, float largest, const uint8_t* codes, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = map[codes[i]] * largest;
}

QuantizedMoment::QuantizedMoment(const std::vector<UpdateSpan>& spans, bool is_signed)
    : map_(dynamic_map(is_signed)),
      layout_(spans),
      codes_(HostTensor::empty(DType::u8, {layout_.codes})),
      largest_(HostTensor::zeros(DType::f32, {layout_.blocks})),
      wide_(HostTensor::zeros(DType::f32, {layout_.wide})) {
  std::fill_n(static_cast<uint8_t*>(codes_.mutable_data()), layout_.codes, code_of_zero(is_signed));
}

void QuantizedMoment::load(size_t span, int64_t at, int64_t count, float* x) const {
  const QuantizedLayout::Place& p = layout_.places[span];
  if (p.wide >= 0) {
    std::copy_n(wide_.as<float>() + p.wide + at, count, x);
    return;
  }
  const auto* codes = static_cast<const uint8_t*>(codes_.data()) + p.codes + at;
  const float* largest = largest_.as<float>() + p.blocks + at / kQuantizedBlock;
  for (int64_t i = 0; i < count; i += kQuantizedBlock)
    dequantize_block(map_, *largest++, codes + i, std::min(kQuantizedBlock, count - i), x + i);
}

void QuantizedMoment::store(size_t span, int64_t at, int64_t count, const float* x) {
  const QuantizedLayout::Place& p = layout_.places[span];
  if (p.wide >= 0) {
    std::copy_n(x, count, wide_.as_mutable<float>() + p.wide + at);
    return;
  }
  auto* codes = static_cast<uint8_t*>(codes_.mutable_data()) + p.codes + at;
  float* largest = largest_.as_mutable<float>() + p.blocks + at / kQuantizedBlock;
  for (int64_t i = 0; i < count; i += kQuantizedBlock)
    *largest++ = quantize_block(map_, x + i, std::min(kQuantizedBlock, count - i), codes + i);
}

}  // namespace amp
