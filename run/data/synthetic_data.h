// Training data for a model whose own are not at hand: tensors of the shapes that its inputs declare, for measurements
// of speed. Nothing can be learnt from them.
#pragma once

#include <cstdint>

#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct SyntheticShape {
  int64_t rows = 8, length = 128;          // dimensions that the model leaves open: the first, the second
  static constexpr int64_t kPixels = 224;  // of inputs of more than three dimensions: all but the first two
};

// What the losses' outputs depend on, and their labels. Numbers are normal; integers are indices of the tables that
// they look rows up in, or 1 (masks). E_LOSS (usage) for a loss whose labels cannot be made so.
Tensors synthetic_data(const SourceGraph& graph, const Losses& losses, const SyntheticShape& shape, uint64_t seed);

// What the outputs depend on alone.
Tensors synthetic_inputs(const SourceGraph& graph, const std::vector<int>& outputs, const SyntheticShape& shape,
                         uint64_t seed);

// Whether a loss's output is rows of scores of classes.
bool is_of_classes(const SourceGraph& graph, const LossSpec& loss, const SyntheticShape& shape);

}  // namespace amp
