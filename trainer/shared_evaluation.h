// Evaluations in the middle of training: at the weights that the rule is evaluated at, by one rank for all.
#pragma once

#include <optional>

#include "trainer/collective.h"
#include "trainer/evaluate.h"
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

// What the first rank found, without its details, is what all go by.
void share_metrics(Collective& ranks, std::optional<Metrics>& found);

}  // namespace amp
