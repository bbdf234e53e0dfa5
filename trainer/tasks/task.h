// Tasks: the default loss of a task, the losses that fit it, and the metrics of its outputs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/features/target.h"
#include "data/questions.h"
#include "trainer/losses/losses.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/nearest.h"
#include "trainer/tasks/task_name.h"

namespace amp {

std::string default_loss(Task task);  // requires a task other than none
Task task_of(const LossSpec& loss);   // the task that uses this kind of outputs and labels
// Returns whether the task's metrics can be computed from this loss's outputs and labels
bool fits(Task task, const LossSpec& loss);
std::vector<std::string> metric_names(Task task);   // "loss" is the first
std::vector<std::string> brief_metrics(Task task);  // metrics that the console shows
std::vector<std::string> all_metric_names();
// Returns the metric that selects the best model
std::string best_metric(Task task, const std::vector<std::string>& classes = {});
bool lower_is_better(const std::string& metric);
// Throws a usage error that lists the task's metrics if `name` is none of them.
void check_metric(Task task, const std::string& name, const std::string& flag);

using MetricValues = std::vector<std::pair<std::string, double>>;

class TaskMetrics {
 public:
  virtual ~TaskMetrics() = default;
  // outputs: the values that the loss reads (logits), in the order of LossSpec::values(). samples: each row's index in
  // the dataset, which identifies its answers. label: absent if the task has none.
  virtual void add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                   std::span<const int64_t> samples = {}) = 0;
  virtual MetricValues values(double loss) const = 0;
  // Returns results that are more than one number (such as a confusion matrix), as JSON; empty: none.
  virtual std::string details() const { return {}; }
  // Returns, for retrieval only, the rank of each item's own candidate, in the order of adding.
  virtual std::span<const CandidateRank> ranks() const { return {}; }
};

// Facts about the data that metrics need in addition to the labels.
struct MetricContext {
  std::vector<std::string> classes = {};  // class names
  const AnswerKey* answers = nullptr;
  AnswerOptions answer_options = {};
  TargetTransform target = {};  // metrics of numbers are in the units before this transform
};
// Creates the object that computes the task's metrics; null for Task::none.
std::unique_ptr<TaskMetrics> make_metrics(Task task, const LossSpec& loss, const MetricContext& context = {});

// ---- for the tasks' files

std::vector<float> floats(const HostTensor& t);           // the elements
std::vector<int64_t> whole_numbers(const HostTensor& t);  // the elements, rounded

}  // namespace amp
