#include "trainer/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "data/loader.h"
#include "trainer/losses/loss.h"

namespace amp {

double Metrics::value(const std::string& name) const {
  if (name == "loss") return loss;
  for (const auto& [known, v] : values) {
    if (known == name) return v;
  }
  fail(Exit::usage, "E_METRIC", cat("there is no metric '", name, "'"));
}

Tensors to_tensors(const Batch& batch, Teacher* teacher) {
  Tensors t = batch.inputs;
  if (batch.labels) t["label"] = batch.labels;
  for (const auto& [name, label] : batch.more_labels) t[name] = label;
  if (teacher) teacher->add_outputs(t);
  return t;
}

const LossSpec* measured_loss(const Objective& objective) {
  if (objective.task == Task::none) return nullptr;
  for (const LossSpec& s : objective.losses.parts) {
    if (task_of(s) != Task::none && (!s.label_name().empty() || task_of(s) == Task::retrieval)) return &s;
  }
  for (const LossSpec& s : objective.losses.parts) {
    if (loss_rule(s.kind).teacher) return &s;
  }
  return nullptr;
}

namespace {
std::optional<Metrics> evaluate_until(const StopSignals* stop, Session& session, const Objective& objective,
                                      const Dataset& data, int64_t batch_size) {
  SamplerOptions o;
  o.order = Order::by_length;
  o.batch_size = batch_size;
  WindowLoader loader(data, Sampler(data.size(), data.lengths(), o), 1);
  const LossSpec* const spec = measured_loss(objective);
  const std::unique_ptr<TaskMetrics> task =
      spec ? make_metrics(objective.task, *spec,
                          {objective.classes, data.answers(), objective.answers, objective.target})
           : nullptr;
  const bool unlabelled = spec && task_of(*spec) == Task::retrieval;
  const std::string label_name = !spec ? "" : spec->label_name().empty() ? "label" : spec->label_name();
  LossWindow loss(objective.losses, true);
  Metrics m;
  while (const auto window = loader.next()) {
    if (stop && stop->requested()) return std::nullopt;
    const Batch& batch = window->batches.at(0);
    const Tensors tensors = to_tensors(batch, objective.teacher);
    loss.count(tensors);
    Tensors outputs;
    loss.add(session.eval_micro(objective.losses, tensors, task ? &outputs : nullptr));
    m.samples += batch.rows;
    if (!task) continue;
    std::vector<HostTensor> values;
    for (const std::string& name : spec->values()) values.push_back(outputs.at(name));
    if (unlabelled) {
      task->add(values, {}, batch.samples);
      continue;
    }
    const auto label = tensors.find(label_name);
    if (label == tensors.end())
      fail(Exit::data, "E_DATA_COLUMN", cat("the validation data has no '", label_name, "'"), "metrics need one");
    task->add(values, label->second, batch.samples);
  }
  m.loss = loss.loss();
  if (task) m.values = task->values(m.loss);
  if (task) m.details = task->details();
  m.brief = brief_metrics(objective.task).size();
  return m;
}

}  // namespace

Metrics evaluate(Session& session, const Objective& objective, const Dataset& data, int64_t batch_size) {
  return evaluate_until(nullptr, session, objective, data, batch_size).value();
}

std::optional<Metrics> evaluate_unless(const StopSignals& stop, Session& session, const Objective& objective,
                                       const Dataset& data, int64_t batch_size) {
  return evaluate_until(&stop, session, objective, data, batch_size);
}

}  // namespace amp
