// Attributes that importer/fake_quant.h puts on the nodes of a quantiser that is spelled out.
#pragma once

namespace amp {

// The input that data flows through; the others are scale, zero point and bounds.
inline constexpr const char* kQuantiserData = "quantiser_data";
// On its Round: the gradient passes as it is.
inline constexpr const char* kStraightThrough = "straight_through";

}  // namespace amp
