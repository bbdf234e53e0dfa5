// Attributes that the importer puts on nodes of quantizers and straight-through estimators (importer/quantized/fake_quant.h,
// importer/quantized/straight_through.h).
#pragma once

namespace amp {

// The input that data flows through; the others are scale, zero point and bounds.
inline constexpr const char* kQuantiserData = "quantiser_data";
// On its Round: the gradient passes as it is.
inline constexpr const char* kStraightThrough = "straight_through";

// On an Add or a Sub (importer/quantized/straight_through.h): the inputs through which no gradient passes.
inline constexpr const char* kDetached = "detached";

}  // namespace amp
