// Builds tables of a run's parameters for the kernels of DeviceUpdate: shards, statistics, units (the weights of one
// output, UpdateSpan::unit) and the bounds of clipping groups.
#pragma once

#include <vector>

#include "backend/cuda/update_statistics.cuh"
#include "backend/cuda/update_transforms.cuh"

namespace amp::cuda {

std::vector<update_kernels::Shard> shards_of(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies);
// Returns the parts of the shards that are within a range of elements.
std::vector<update_kernels::Shard> shards_within(const std::vector<update_kernels::Shard>& all,
                                                 const ElementRange& range);
// Returns the index of each span's first shard, then the number of shards.
std::vector<int64_t> first_shards(const std::vector<update_kernels::Shard>& shards, size_t spans);
// Returns the rule's settings, and which of them a schedule cycles.
update_kernels::SteppedSettings settings_of(const UpdateSpec& spec);
std::vector<update_kernels::Statistic> statistics_of(const UpdateSpec& spec,
                                                     const std::vector<ParamCache::Copy>& copies);
std::vector<update_kernels::Unit> units_of(const UpdateSpec& spec);  // empty if gradients are not transformed
std::vector<double> clip_bounds(const UpdateSpec& spec);             // one per clipping group; empty for a single group

}  // namespace amp::cuda
