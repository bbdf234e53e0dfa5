// A batch is evaluated in two parts: run() computes on the device, and add() accumulates on the host. Ranks exchange
// the results in between, so that all of them accumulate every batch in the same order (evaluate.cc).
#include "trainer/loop/batch_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/each_number.h"
#include "trainer/tasks/task_rule.h"
#include "trainer/tasks/worst_samples.h"

namespace amp {

namespace {

// Returns the number of rows with NaN or +inf in any output. -inf is permitted, because it masks a class.
int64_t rows_not_finite(const std::vector<HostTensor>& outputs, int64_t rows) {
  std::vector<char> bad(static_cast<size_t>(rows), 0);
  for (const HostTensor& t : outputs) {
    if (!is_float(t.dtype()) || t.rank() == 0 || t.dims()[0] % rows != 0) continue;
    const int64_t row = t.numel() / rows;
    each_number(t, [&](int64_t i, double x) {
      if (std::isnan(x) || x == std::numeric_limits<double>::infinity()) bad[static_cast<size_t>(i / row)] = 1;
    });
  }
  return std::count(bad.begin(), bad.end(), 1);
}

std::string label_of(const LossSpec* spec) {
  if (!spec) return "";
  return spec->label_name().empty() ? "label" : spec->label_name();
}

}  // namespace

BatchEvaluator::BatchEvaluator(Session& session, const Objective& objective, const Dataset* data, WorstSamples* worst)
    : session_(session),
      objective_(objective),
      data_(data),
      worst_(worst),
      spec_(measured_loss(objective)),
      unlabeled_(spec_ && task_rule(task_of(*spec_)).embeddings),
      label_name_(label_of(spec_)),
      loss_(objective.losses, true) {
  const MetricContext context{objective.classes, data ? data->answers() : nullptr, objective.answers, objective.target};
  const auto make = [this, context] { return make_metrics(objective_.task, *spec_, context); };
  if (spec_) task_ = make();
  if (task_ && data && data->groups()) groups_.emplace(*data->groups(), make);
  if (!task_) worst_ = nullptr;
  if (worst_) worst_->begin(objective.task, *spec_, context);
}

BatchEvaluator::~BatchEvaluator() = default;

std::vector<std::string> BatchEvaluator::outputs() const {
  return spec_ ? spec_->values() : std::vector<std::string>();
}

EvaluatedBatch BatchEvaluator::run(const Batch& batch) const {
  const Tensors tensors = to_tensors(batch, objective_.teacher);
  LossAccumulator loss(objective_.losses, true);
  loss.count(tensors);
  EvaluatedBatch b;
  Tensors outputs;
  b.sums = session_.eval_micro_batch(objective_.losses, tensors, spec_ ? &outputs : nullptr);
  b.items = loss.counted();
  b.rows = batch.rows;
  if (!spec_) return b;
  for (const std::string& name : spec_->values()) b.outputs.push_back(outputs.at(name));
  if (loss_rule(spec_->kind).teacher && !spec_->label_name().empty()) {
    for (const std::string& name : spec_->reference) b.outputs.push_back(outputs.at(name));
    for (const std::string& name : spec_->reference.empty() ? spec_->outputs : std::vector<std::string>())
      b.outputs.push_back(tensors.at(teacher_name(name)));
  }
  if (const std::string second = loss_rule(spec_->kind).second_label; !second.empty())
    b.outputs.push_back(tensors.at(second));
  b.samples = batch.samples;
  if (unlabeled_) return b;
  const auto label = tensors.find(label_name_);
  if (label == tensors.end())
    fail(Exit::data, "E_DATA_COLUMN", cat("the validation data has no '", label_name_, "'"), "metrics need one");
  b.label = label->second;
  return b;
}

void BatchEvaluator::add(const EvaluatedBatch& b) {
  loss_.count(b.items);
  loss_.add(b.sums);
  m_.samples += b.rows;
  m_.not_finite += rows_not_finite(b.outputs, b.rows);
  if (task_) task_->add(b.outputs, b.label, b.samples);
  if (groups_) groups_->add(b.outputs, b.label, b.samples);
  if (worst_) worst_->add(b.outputs, b.label, b.samples);
}

double BatchEvaluator::loss_of(const EvaluatedBatch& b) const {
  LossAccumulator loss(objective_.losses, true);
  loss.count(b.items);
  loss.add(b.sums);
  return loss.loss();
}

Metrics BatchEvaluator::metrics() {
  Metrics m = m_;
  m.loss = loss_.loss();
  if (task_) m.values = task_->values(m.loss);
  if (task_) m.details = task_->details();
  if (worst_) worst_->finish(*task_);
  m.brief = brief_metrics(objective_.task).size();
  if (groups_) {
    m.group_column = data_->groups()->column;
    m.groups = groups_->values();
    m.details = add_groups(m.details, m.group_column, m.groups);
  }
  return m;
}

}  // namespace amp
