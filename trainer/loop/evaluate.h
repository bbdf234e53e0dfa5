// Evaluation: computes the loss and the task's metrics on a dataset.
#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"
#include "trainer/comm/communicator.h"
#include "trainer/compile/session.h"
#include "trainer/loop/stop.h"
#include "trainer/loop/teacher.h"
#include "trainer/tasks/group_metrics.h"
#include "trainer/tasks/task.h"

namespace amp {

struct Metrics {
  double loss = 0;
  int64_t samples = 0;
  MetricValues values;            // in the order of metric_names(task)
  size_t brief = SIZE_MAX;        // number of leading values that the log line shows
  std::string details;            // JSON: confusion matrix, scores of each class, groups; empty: none
  std::string group_column = {};  // column that defines the groups (Dataset::groups); empty: none
  std::vector<GroupValues> groups = {};
  int64_t not_finite = 0;                       // samples with NaN or +inf among the outputs that the task reads
  double value(const std::string& name) const;  // "loss" or one of values; usage error otherwise
  // Returns a warning (W_NOT_FINITE) that names the loss and the metrics that are not finite; empty if they and the
  // outputs are finite.
  std::string not_finite_text() const;
};

class WorstSamples;  // trainer/tasks/worst_samples.h

// The losses that a run optimizes and the metrics that it computes.
struct Objective {
  Losses losses;
  Task task = Task::none;  // selects the metrics, which use label and outputs of measured_loss()
  Teacher* teacher = nullptr;
  std::vector<std::string> classes = {};  // class names, if the data has any
  AnswerOptions answers = {};
  TargetTransform target = {};    // transform of regression targets
  WorstSamples* worst = nullptr;  // on the root rank: receives every evaluated row
};

// Returns the loss whose outputs the metrics use: the first loss that has a label or is for retrieval, else the
// first distillation loss, whose outputs are compared with the data's 'label'. Null without a task.
const LossSpec* measured_loss(const Objective& objective);

// Returns a batch's inputs, labels and the teacher's outputs by name.
Tensors to_tensors(const Batch& batch, Teacher* teacher);

// Evaluates batches sorted by length, longest first.
Metrics evaluate(Session& session, const Objective& objective, const Dataset& data, int64_t batch_size);
// As evaluate(), but checks `stop` before every batch; empty if a stop was requested before the end. All ranks call it
// together and share the batches. Each rank returns the metrics of the whole dataset.
std::optional<Metrics> evaluate_unless_stopped(const StopSignals& stop, Session& session, const Objective& objective,
                                               const Dataset& data, int64_t batch_size,
                                               Communicator& ranks = one_rank());

}  // namespace amp
