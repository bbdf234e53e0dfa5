// The NHWC layout of spatial tensors. Nodes with the attribute channels_last read and write (N, H, W, C) instead of
// (N, C, H, W), and weights (M, H, W, C) instead of (M, C, H, W). Only graphs for a GPU have such nodes
// (ops/passes/channels_last.h).
#pragma once

#include "base/shape.h"
#include "graph/attrs.h"

namespace amp {

constexpr const char* kChannelsLast = "channels_last";

inline bool has_channels_last(const Attrs& a) { return a.i(kChannelsLast, 0) != 0; }

// Permutes dims from (N, C, H, W) to (N, H, W, C), and back.
inline Dims channels_last(const Dims& d) { return {d.at(0), d.at(2), d.at(3), d.at(1)}; }
inline Dims channels_first(const Dims& d) { return {d.at(0), d.at(3), d.at(1), d.at(2)}; }

}  // namespace amp
