// Attributes that the importer sets on nodes of quantizers and straight-through estimators
// (importer/quantized/fake_quant.h, importer/quantized/straight_through.h).
#pragma once

namespace amp {

// The index of the data input; other inputs are scale, zero point and bounds.
// The spelling is part of the fingerprints of recorded plans (precision/fingerprint.cc).
inline constexpr const char* kQuantizerData = "quantiser_data";
// On a quantizer's Round: the gradient passes unchanged.
inline constexpr const char* kStraightThrough = "straight_through";

// On an Add or Sub (importer/quantized/straight_through.h): the inputs without gradient.
inline constexpr const char* kDetached = "detached";

}  // namespace amp
