// Trains a model for a few steps on a device, to compare bits.
#pragma once

#include "tests/zoo/golden.h"

namespace amp::test {

// Returns the folders of models with PyTorch's results, in tests/data/zoo.
std::vector<std::filesystem::path> zoo_entries();

// Returns the parameters after `steps` steps of AdamW with dynamic loss scale. The plan computes everything in `low`
// (f32: no plan).
HostTensor trained(const Golden& g, Device& device, DType low, int steps, bool fusion = true);

// Returns the unfused graph of a training micro-batch under the same plan.
std::shared_ptr<const Graph> planned_graph(const Golden& g, DType low);

// Makes the Program of a training micro-batch under the same plan, without running it.
void prepare_training(const Golden& g, Device& device, DType low);

}  // namespace amp::test
