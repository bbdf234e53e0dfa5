// Running statistics of BatchNormalization as state: which values they are, and how a training graph hands out what
// they become.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Values of the graph that are running statistics and nothing else: parameters that no gradient trains, read as mean or
// variance only. The importer makes statistics parameters when batch statistics are asked for
// (ImportOptions::batchnorm_train).
std::vector<int> running_statistics(const SourceGraph& graph);

// The output of a graph bound with batchnorm_train that holds the statistic in parameter slot `slot` after the
// micro-batch.
std::string statistic_output(int slot);

}  // namespace amp
