// Trains a model for a few steps on a device, to compare bits.
#pragma once

#include "tests/zoo/golden.h"

namespace amp::test {

// Folders of models with PyTorch's answers, in tests/data/zoo.
std::vector<std::filesystem::path> zoo_entries();

// The parameters after `steps` steps of AdamW in a plan that computes everything in `low` (f32: no plan), dynamic loss
// scale.
HostTensor trained(const Golden& g, Device& device, DType low, int steps, bool fusion = true);

// The graph of a training micro-batch under the same plan, nothing fused.
std::shared_ptr<const Graph> planned_graph(const Golden& g, DType low);

// Makes the Program of a training micro-batch under the same plan; runs nothing.
void prepare_training(const Golden& g, Device& device, DType low);

}  // namespace amp::test
