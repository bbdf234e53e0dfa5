// Running statistics of BatchNormalization as state: which values they are, and the graph outputs with their
// updates.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Slots (indices in the parameter table) of values that are only running statistics: parameters that no gradient
// trains and that are read only as mean or variance. The importer makes statistics parameters if batch statistics are
// requested (ImportOptions::batchnorm_train).
std::vector<int> running_statistics(const SourceGraph& graph);

// The name of the output, in a graph bound with BindOptions::batchnorm_train, that holds the statistic of parameter
// slot `slot` after the micro-batch.
std::string statistic_output(int slot);

}  // namespace amp
