// An attribute of GroupQueryAttention nodes, which the importer sets and the operator's lowering reads.
#pragma once

namespace amp {

// If the attribute is 1, the outputs present_key and present_value have only the new positions, not the past ones.
inline constexpr const char* kNewPositions = "new_positions_only";

}  // namespace amp
