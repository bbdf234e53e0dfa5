// DistributionSpec: settings of data parallel training.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DistributionSpec {
  int64_t ranks = 1;            // replicas in this process, or the number of processes if there are several
  std::string gpus;             // "0,2": GPUs of this machine's ranks; empty: assigned by local rank
  double heartbeat = 15;        // in seconds
  std::string rank_token_file;  // empty: the token is in the environment (run/train/process_ranks.h), or there is none
  bool sync_bn = false, overlap_grad_reduce = true;
  std::string grad_reduce_dtype = "fp32", grad_reduce_trace;
  int64_t sync_every = 1;  // in steps
  bool shard_optimizer = false;
};

}  // namespace amp
