// Applies the precision plan to a bound graph, before autodiff. Every node gets its compute type, every value its
// storage type, and Casts are inserted between them. The gradient of a Cast is a Cast. So backward computes in the
// same types as forward, parameter gradients are fp32, and the parameters themselves stay fp32 (master weights).
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// compute: the compute type by source node; nodes without a source node (the loss) compute in fp32. low: the
// plan's 16-bit type. map: if given, receives the new id of every value of g. The rules are:
//   * A 16-bit node reads and writes 16 bits.
//   * An fp32 node reads either type (kernels widen on load) and stores 16 bits if all readers read 16 bits.
//   * Operators that only move elements have the type of their input. A Cast that all their readers need is placed
//     before them, so that one Cast of a value serves all reshaped and transposed views of it.
//   * BatchNormalization keeps scale, bias and statistics in fp32.
//   * A graph input that only 16-bit nodes read is fed in 16 bits.
Graph apply_precision(const Graph& g, const std::vector<DType>& compute, DType low, const Evaluator& evaluator,
                      std::vector<ValueId>* map = nullptr);

}  // namespace amp
