// Random training data with the shapes that a model's inputs declare, for measurements of speed. Nothing can be learned
// from it.
#pragma once

#include <cstdint>

#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct SyntheticShape {
  int64_t rows = 8, length = 128;          // rows: size of an open first dimension; length: of other open dimensions
  static constexpr int64_t kPixels = 224;  // size of open dimensions after the second, for inputs with more than three
};

// Returns the inputs that the losses' outputs depend on, and labels. Floating-point inputs are normally distributed.
// Integer inputs are random row indices if they index a table, otherwise 1 (as in attention masks). Throws E_LOSS
// (Exit::usage) for a loss whose labels cannot be random.
Tensors synthetic_data(const SourceGraph& graph, const Losses& losses, const SyntheticShape& shape, uint64_t seed);

// Returns only the inputs that the outputs depend on, without labels.
Tensors synthetic_inputs(const SourceGraph& graph, const std::vector<int>& outputs, const SyntheticShape& shape,
                         uint64_t seed);

// Returns whether the loss reads one output of shape (rows, classes), with more than one class.
bool is_of_classes(const SourceGraph& graph, const LossSpec& loss, const SyntheticShape& shape);

}  // namespace amp
