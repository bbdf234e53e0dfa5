// Attributes that the importer sets on nodes of quantizers and straight-through estimators
// (importer/quantized/fake_quant.h, importer/quantized/straight_through.h).
#pragma once

namespace amp {

// Attribute with the index of the node's data input; the other inputs are scale, zero point and bounds. The
// British spelling is kept, because it is part of the fingerprints of recorded plans (precision/fingerprint.cc).
inline constexpr const char* kQuantizerData = "quantiser_data";
// Attribute of a quantizer's Round: the gradient passes the Round unchanged.
inline constexpr const char* kStraightThrough = "straight_through";

// Attribute of an Add or Sub with the indices of the inputs that get no gradient
// (importer/quantized/straight_through.h).
inline constexpr const char* kDetached = "detached";

}  // namespace amp
