// BatchEvaluator: computes the loss and the task's metrics of batches that arrive one after the other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/evaluation.h"
#include "trainer/loop/evaluate.h"

namespace amp {

class BatchEvaluator {
 public:
  // Session, objective and data must outlive the evaluator. data: reference answers and groups of the samples; null:
  // none. worst: receives every row; may be null.
  BatchEvaluator(Session& session, const Objective& objective, const Dataset* data = nullptr,
                 WorstSamples* worst = nullptr);
  BatchEvaluator(const BatchEvaluator&) = delete;
  BatchEvaluator& operator=(const BatchEvaluator&) = delete;
  ~BatchEvaluator();

  // Computes a batch and returns what add() accumulates. Throws E_DATA_COLUMN (Exit::data) if metrics need a label that
  // the batch lacks.
  EvaluatedBatch run(const Batch& batch) const;
  void add(const EvaluatedBatch& batch);
  double loss_of(const EvaluatedBatch& batch) const;  // the loss of one batch
  int64_t samples() const { return m_.samples; }      // number of samples added so far
  Metrics metrics();                                  // metrics of all batches so far
  // Names of the outputs in EvaluatedBatch::outputs; empty without metrics.
  std::vector<std::string> outputs() const;

 private:
  Session& session_;
  const Objective& objective_;
  const Dataset* data_;
  WorstSamples* worst_;
  const LossSpec* const spec_;
  const bool unlabeled_;
  const std::string label_name_;
  std::unique_ptr<TaskMetrics> task_;
  std::optional<GroupMetrics> groups_;
  LossAccumulator loss_;
  Metrics m_;
};

}  // namespace amp
