// Running statistics of BatchNormalization as state: which parameters are running statistics, and the graph
// outputs that hold their updates.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Returns the slots (indices in the parameter table) of parameters that are only running statistics: no gradient
// trains them, and they are read only as mean or variance. The importer turns statistics into parameters if batch
// statistics are requested (ImportOptions::batchnorm_train).
std::vector<int> running_statistics(const SourceGraph& graph);

// Returns the name of the output that holds the statistic of parameter slot `slot` after the micro-batch, in a
// graph bound with BindOptions::batchnorm_train.
std::string statistic_output(int slot);

}  // namespace amp
