// Running statistics of BatchNormalization under --batchnorm train: found and, where the file lets them share a tensor
// with something else, given a value of their own.
//
// Exporters merge equal tensors: in a fresh network every running mean is one zero vector, which may be a bias too. A
// statistic therefore keeps its tensor only when no other node reads it, or when all who read it are
// BatchNormalizations with the same scale, bias, mean and variance: one module applied several times, whose statistics
// move with each application. Otherwise it becomes a copy, which export writes as a new initializer if training moved
// it.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/doc.h"

namespace amp {

// Marks them in built.graph (kind parameter, not trainable). Statistics that are no constants, or cannot be
// separated (inside a local function or branch), stay fixed: a note each.
void find_statistics(Built& built, ModelDoc& doc);

}  // namespace amp
