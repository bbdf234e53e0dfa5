// Finds the running statistics of BatchNormalization for --batchnorm train and gives each its own tensor where
// necessary.
//
// Exporters merge equal tensors: in an untrained network all running means are one zero vector, which may also be a
// bias. A statistic keeps its tensor if no other node reads it, or if all readers are one module. Nodes are one module
// if they have the same scale, bias, mean and variance; each of these nodes updates the statistics. Otherwise the
// statistic becomes a copy, which export writes as a new initializer if training changed it.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/doc.h"

namespace amp {

// Marks the statistics in built.graph (kind parameter, not trainable). A statistic that is not a constant, or that
// cannot be separated (inside a local function or branch), stays fixed, with a note.
void find_statistics(Built& built, ModelDoc& doc);

}  // namespace amp
