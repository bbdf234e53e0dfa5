// Tasks: which loss a task means when none is named, which losses fit, and the metrics of its outputs.
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

std::string default_loss(Task task);         // of a task that is not none
Task task_of(const LossSpec& loss);          // what a loss's outputs and labels are
bool fits(Task task, const LossSpec& loss);  // can the task's metrics be taken from this loss's outputs and labels?
std::vector<std::string> metric_names(Task task);   // loss first
std::vector<std::string> brief_metrics(Task task);  // those that the console shows
std::vector<std::string> all_metric_names();
std::string best_metric(Task task, const std::vector<std::string>& classes = {});  // what makes a model the best one
bool lower_is_better(const std::string& metric);
void check_metric(Task task, const std::string& name,
                  const std::string& flag);  // usage error naming those that the task has

using MetricValues = std::vector<std::pair<std::string, double>>;

class TaskMetrics {
 public:
  virtual ~TaskMetrics() = default;
  // outputs: what the loss computes on (logits), in the order of its values(). samples: the rows' numbers in the
  // dataset, by which answers are found. label: absent where the task has none.
  virtual void add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                   std::span<const int64_t> samples = {}) = 0;
  virtual MetricValues values(double loss) const = 0;
  virtual std::string details() const { return {}; }  // more than numbers, as JSON; empty: none
  // Retrieval: the rank of each item's own candidate, in the order of adding.
  virtual std::span<const CandidateRank> ranks() const { return {}; }
};

// What metrics know of the data besides labels.
struct MetricContext {
  std::vector<std::string> classes = {};  // their names
  const AnswerKey* answers = nullptr;
  AnswerOptions answer_options = {};
  TargetTransform target = {};  // metrics of numbers are in the units before it
};
std::unique_ptr<TaskMetrics> make_metrics(Task task, const LossSpec& loss,
                                          const MetricContext& context = {});  // null for Task::none

// ---- for the tasks' files

std::vector<float> floats(const HostTensor& t);           // its elements
std::vector<int64_t> whole_numbers(const HostTensor& t);  // rounded

}  // namespace amp
