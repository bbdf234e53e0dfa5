// Builds the tables about a run's parameters for the device's update: parts of tensors, units, statistics.
#pragma once

#include <vector>

#include "backend/cuda/update_around.cuh"
#include "backend/cuda/update_statistics.cuh"

namespace amp::cuda {

std::vector<update_kernels::Shard> shards_of(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies);
// What of them lies within these elements.
std::vector<update_kernels::Shard> shards_within(const std::vector<update_kernels::Shard>& all,
                                                 const ElementRange& range);
// Of each span the first of its shards, and behind them the number of all.
std::vector<int64_t> first_shards(const std::vector<update_kernels::Shard>& shards, size_t spans);
// The rule's, with what a schedule cycles.
update_kernels::SteppedSettings settings_of(const UpdateSpec& spec);
std::vector<update_kernels::Statistic> statistics_of(const UpdateSpec& spec,
                                                     const std::vector<ParamCache::Copy>& copies);
std::vector<update_kernels::Unit> units_of(const UpdateSpec& spec);  // empty where gradients stay as they are
std::vector<double> clip_bounds(const UpdateSpec& spec);             // of each clipping group; empty where there is one

}  // namespace amp::cuda
