// Distributed evaluation during training. Each rank evaluates a part of the batches. The results of every batch are
// sent to all ranks, and each rank accumulates them in the order of the batches. So metrics have the same bits as with
// one rank, on every rank.
#pragma once

#include <vector>

#include "base/host_tensor.h"
#include "trainer/comm/communicator.h"
#include "trainer/compile/session.h"

namespace amp {

// Replaces a session's weights by the weights that the optimizer evaluates, for the lifetime of this object.
class EvaluatedWeights {
 public:
  EvaluatedWeights(Session& session, const HostTensor& evaluated);  // empty: keeps the current weights
  EvaluatedWeights(const EvaluatedWeights&) = delete;
  EvaluatedWeights& operator=(const EvaluatedWeights&) = delete;
  ~EvaluatedWeights();

 private:
  Session& session_;
  HostTensor kept_;
};

struct EvaluatedBatch {
  bool stop = false;                // the rank received a stop request and evaluated nothing
  int64_t rows = 0;                 // number of samples of the batch; 0: the rank had no batch
  std::vector<double> items, sums;  // number of items and sum of each loss term
  std::vector<HostTensor> outputs;  // inputs of the metrics
  HostTensor label;                 // may be absent
  std::vector<int64_t> samples;     // index in the dataset of each sample
};

// Gathers the batches of all ranks, in the order of the ranks.
std::vector<EvaluatedBatch> of_all_ranks(Communicator& ranks, EvaluatedBatch mine);

}  // namespace amp
