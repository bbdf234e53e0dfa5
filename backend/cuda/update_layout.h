// Builds the tables about a run's parameters for the device's update: parts of tensors, units, statistics.
#pragma once

#include <vector>

#include "backend/cuda/update_statistics.cuh"
#include "backend/cuda/update_transforms.cuh"

namespace amp::cuda {

std::vector<update_kernels::Shard> shards_of(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies);
// Returns the parts of the shards that are within these elements.
std::vector<update_kernels::Shard> shards_within(const std::vector<update_kernels::Shard>& all,
                                                 const ElementRange& range);
// Returns the index of each span's first shard, then the number of shards.
std::vector<int64_t> first_shards(const std::vector<update_kernels::Shard>& shards, size_t spans);
// The rule's settings, with the one that a schedule cycles.
update_kernels::SteppedSettings settings_of(const UpdateSpec& spec);
std::vector<update_kernels::Statistic> statistics_of(const UpdateSpec& spec,
                                                     const std::vector<ParamCache::Copy>& copies);
std::vector<update_kernels::Unit> units_of(const UpdateSpec& spec);  // empty: gradients are not transformed
std::vector<double> clip_bounds(const UpdateSpec& spec);             // one per clipping group; empty for a single group

}  // namespace amp::cuda
