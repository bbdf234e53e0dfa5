// The precision plan applied to a bound graph, before autodiff: every node gets its compute type, every value its
// storage type, and Casts appear on the borders. The gradient of a Cast is a Cast, so backward precision, fp32
// gradients at the parameters and master weights follow by themselves.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// compute: by source node; nodes without one (the loss) compute in fp32. low: the plan's 16-bit type.
//  * a 16-bit node reads and writes 16 bit;
//  * an fp32 node reads either (kernels widen as they load) and stores 16 bit when all who read it read 16 bit;
//  * operators that only move elements follow their input; a cast that all their readers want goes before them, so
//    that one cast of a value serves every reshaped and transposed view of it;
//  * batch normalisation keeps its scale, bias and statistics in fp32;
//  * a graph input that 16-bit nodes alone read is fed in 16 bit.
// map, if given, receives the new id of every value of g.
Graph apply_precision(const Graph& g, const std::vector<DType>& compute, DType low, const Evaluator& evaluator,
                      std::vector<ValueId>* map = nullptr);

}  // namespace amp
