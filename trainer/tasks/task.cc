// Properties of tasks that are computed from their definitions (TaskRule, trainer/tasks/task_rule.h).
#include "trainer/tasks/task.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metric.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

std::vector<TaskRule>& rules_of_tasks() {
  static std::vector<TaskRule> all;
  return all;
}

// Returns all metrics of a task, including those that only some data have.
std::vector<std::string> possible_metrics(const TaskRule& rule) {
  std::vector<std::string> names = metric_names(Task(rule.name));
  if (!rule.some_metrics) return names;
  for (std::string& name : rule.some_metrics()) names.push_back(std::move(name));
  return names;
}

}  // namespace

TaskRegistration::TaskRegistration(TaskRule rule) {
  std::vector<TaskRule>& all = rules_of_tasks();
  const auto at = std::lower_bound(all.begin(), all.end(), rule, [](const TaskRule& a, const TaskRule& b) {
    return std::string_view(a.name) < b.name;
  });
  all.insert(at, std::move(rule));
}

const std::vector<TaskRule>& task_rules() { return rules_of_tasks(); }

const TaskRule& task_rule(Task task) {
  static const TaskRule none{.name = "none"};
  for (const TaskRule& r : task_rules()) {
    if (task.name() == r.name) return r;
  }
  if (task != Task::none) bug("task without a row");
  return none;
}

Task task_from_name(const std::string& name) {
  for (const TaskRule& r : task_rules()) {
    if (name == r.name) return Task(r.name);
  }
  return Task::none;
}

std::string task_names(bool TaskRule::*with) {
  std::vector<std::string> names;
  for (const TaskRule& r : task_rules()) {
    if (r.*with) names.emplace_back(r.name);
  }
  std::string last = names.empty() ? "" : names.back();
  if (names.size() < 2) return last;
  names.pop_back();
  return cat(join(names, ", "), " and ", last);
}

int64_t TaskRule::classes_of(int64_t head_outputs) const {
  if (outputs == ClassOutputs::thresholds) return head_outputs > 0 ? head_outputs + 1 : 0;
  return outputs == ClassOutputs::one_each_or_yes_no && head_outputs == 1 ? 2 : head_outputs;
}

int64_t TaskRule::outputs_for(int64_t classes) const {
  return outputs == ClassOutputs::thresholds && classes > 0 ? classes - 1 : classes;
}

std::string default_loss(Task task) { return task_rule(task).loss; }

Task task_of(const LossSpec& loss) { return loss_rule(loss.kind).task; }

bool fits(Task task, const LossSpec& loss) {
  const Task t = task_of(loss);
  if (task == Task::none || t == Task::none || t == task) return true;
  const TaskRule& rule = task_rule(task);
  return std::find(rule.losses_of.begin(), rule.losses_of.end(), t) != rule.losses_of.end() ||
         std::find(rule.more_losses.begin(), rule.more_losses.end(), loss.kind) != rule.more_losses.end();
}

std::vector<std::string> metric_names(Task task) {
  std::vector<std::string> names = {"loss"};
  const TaskRule& rule = task_rule(task);
  for (const TaskMetric& m : rule.metrics) names.push_back(m.name);
  if (!rule.more_metrics) return names;
  for (std::string& name : rule.more_metrics()) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> brief_metrics(Task task) {
  std::vector<std::string> names;
  for (const TaskMetric& m : task_rule(task).metrics) names.push_back(m.name);
  return names;
}

std::vector<std::string> all_metric_names() {
  std::vector<std::string> names = {"loss"};
  for (const TaskRule& r : task_rules()) {
    for (const std::string& m : possible_metrics(r)) {
      if (std::find(names.begin(), names.end(), m) == names.end()) names.push_back(m);
    }
  }
  return names;
}

std::string best_metric(Task task, const std::vector<std::string>& classes) {
  const TaskRule& rule = task_rule(task);
  return rule.best_of ? rule.best_of(classes) : rule.best;
}

bool lower_is_better(const std::string& metric) {
  const auto is_it = [&](const auto& m) { return m.name == metric && m.lower_is_better; };
  const auto among = [&](const auto& metrics) { return std::any_of(metrics.begin(), metrics.end(), is_it); };
  return metric == "loss" || among(class_metrics()) || among(number_metrics()) ||
         std::any_of(task_rules().begin(), task_rules().end(), [&](const TaskRule& r) { return among(r.metrics); });
}

void check_metric(Task task, const std::string& name, const std::string& flag) {
  const std::vector<std::string> names = possible_metrics(task_rule(task));
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(Exit::usage, "E_METRIC",
       cat(flag, ": there is no '", printable(name), "' here",
           task == Task::none ? "" : cat(", the task is ", name_of(task))),
       cat("metrics: ", join(names, ", "), task == Task::none ? "; `task` chooses others" : ""));
}

std::unique_ptr<TaskMetrics> make_metrics(Task task, const LossSpec& loss, const MetricContext& context) {
  const TaskRule& rule = task_rule(task);
  return rule.make_metrics ? rule.make_metrics(loss, context) : nullptr;
}

bool has_predictions(Task task) { return task_rule(task).make_predictions; }

std::unique_ptr<Predictions> make_predictions(Task task, const LossSpec& loss, const PredictionContext& context) {
  if (!has_predictions(task)) bug("a task without predictions");
  return task_rule(task).make_predictions(loss, context);
}

std::unique_ptr<PerSampleError> make_sample_error(Task task, const LossSpec& loss, const MetricContext& context) {
  const TaskRule& rule = task_rule(task);
  return rule.make_error ? rule.make_error(loss, context) : nullptr;
}

std::vector<int64_t> whole_numbers(const HostTensor& t) {
  if (!is_float(t.dtype())) return t.to_ints();
  std::vector<int64_t> out;
  for (const double v : t.to_doubles()) out.push_back(std::llround(v));
  return out;
}

std::vector<float> floats(const HostTensor& t) {
  const HostTensor f = t.cast(DType::f32);
  return {f.as<float>(), f.as<float>() + f.numel()};
}

}  // namespace amp
