// Settings of data parallel training.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DistributionSpec {
  int64_t ranks = 1;      // replicas in this process; with several processes, the number of processes
  std::string gpus;       // "0,2": of the ranks of this machine; empty: by their number
  double heartbeat = 15;  // seconds
  bool sync_bn = false, overlap_grad_reduce = true;
  std::string grad_reduce_dtype = "fp32", grad_reduce_trace;
  int64_t sync_every = 1;  // steps
  bool shard_optimizer = false;
};

}  // namespace amp
