// Evaluation: loss and the task's metrics over a dataset.
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
  MetricValues values;            // of the task, in its order
  size_t brief = SIZE_MAX;        // so many of the first values are worth a line for people
  std::string details;            // JSON: confusion matrix, scores of each class, groups; empty: none
  std::string group_column = {};  // what groups are by (Dataset::groups); empty: none
  std::vector<GroupValues> groups = {};
  int64_t not_finite = 0;                       // samples with NaN or +inf among the outputs that the task reads
  double value(const std::string& name) const;  // "loss" or one of values; usage error otherwise
  // A warning (W_NOT_FINITE) that names the loss and metrics that are no finite numbers; empty: all are, and so are the
  // outputs.
  std::string not_finite_text() const;
};

class WorstSamples;  // trainer/tasks/worst_samples.h

// What a run is judged by.
struct Objective {
  Losses losses;
  Task task = Task::none;  // the metrics; labels and outputs are those of the first loss of that task
  Teacher* teacher = nullptr;
  std::vector<std::string> classes = {};  // their names, where the data has any
  AnswerOptions answers = {};
  TargetTransform target = {};    // of the numbers to regress on
  WorstSamples* worst = nullptr;  // told of every row that the first rank evaluates
};

// The loss whose outputs the metrics are of: the first one with a label of that kind; without one, what is distilled,
// against the data's 'label'. Null without a task.
const LossSpec* measured_loss(const Objective& objective);

// A batch's inputs, labels and what the teacher says.
Tensors to_tensors(const Batch& batch, Teacher* teacher);

// Longest batches first.
Metrics evaluate(Session& session, const Objective& objective, const Dataset& data, int64_t batch_size);
// None when a stop was asked for before its end: looked for before every batch. Several ranks call it together and
// share the batches; each gets the metrics that one rank would.
std::optional<Metrics> evaluate_unless(const StopSignals& stop, Session& session, const Objective& objective,
                                       const Dataset& data, int64_t batch_size, Communicator& ranks = one_rank());

}  // namespace amp
