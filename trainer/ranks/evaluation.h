// Evaluations in the middle of training, each rank its share of the batches: what a batch gave goes to all ranks, and
// each of them counts all, in the order of the batches. So the metrics are those of one rank, to the last bit, and the
// same everywhere.
#pragma once

#include <vector>

#include "base/host_tensor.h"
#include "trainer/collective.h"
#include "trainer/session.h"

namespace amp {

// A session's weights are those that the rule is evaluated at, as long as this lives.
class EvaluatedWeights {
 public:
  EvaluatedWeights(Session& session, const HostTensor& evaluated);  // empty: those that it has
  EvaluatedWeights(const EvaluatedWeights&) = delete;
  EvaluatedWeights& operator=(const EvaluatedWeights&) = delete;
  ~EvaluatedWeights();

 private:
  Session& session_;
  HostTensor kept_;
};

struct EvaluatedBatch {
  bool stop = false;                // its rank was asked to stop, and evaluated nothing
  int64_t rows = 0;                 // 0: the rank had no batch
  std::vector<double> items, sums;  // of the loss terms
  std::vector<HostTensor> outputs;  // those that metrics are of
  HostTensor label;                 // may be absent
  std::vector<int64_t> samples;     // of the rows
};

// Of each rank, in their order.
std::vector<EvaluatedBatch> of_all_ranks(Collective& ranks, EvaluatedBatch mine);

}  // namespace amp
