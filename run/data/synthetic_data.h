// Random training data with the shapes that a model's inputs declare, for measurements of speed. Nothing can be learned
// from it.
#pragma once

#include <cstdint>

#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct SyntheticShape {
  int64_t rows = 8, length = 128;          // sizes of open dimensions: the first one, others
  static constexpr int64_t kPixels = 224;  // open dimensions after the second, of inputs with more than three
};

// The inputs that the losses' outputs depend on, and labels. Floating-point numbers are normal. Integers are random
// indices of the tables that they index, otherwise 1 (masks). E_LOSS (usage): a loss whose labels cannot be random.
Tensors synthetic_data(const SourceGraph& graph, const Losses& losses, const SyntheticShape& shape, uint64_t seed);

// Only the inputs that the outputs depend on.
Tensors synthetic_inputs(const SourceGraph& graph, const std::vector<int>& outputs, const SyntheticShape& shape,
                         uint64_t seed);

// Whether a loss reads one output of shape (rows, classes), with more than one class.
bool is_of_classes(const SourceGraph& graph, const LossSpec& loss, const SyntheticShape& shape);

}  // namespace amp
