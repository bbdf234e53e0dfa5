// An attribute of GroupQueryAttention nodes, which the importer sets and the operator's lowering reads.
#pragma once

namespace amp {

// 1: the outputs present_key and present_value have only the new positions, without those of the past.
inline constexpr const char* kNewPositions = "new_positions_only";

}  // namespace amp
