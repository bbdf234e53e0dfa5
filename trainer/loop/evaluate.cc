// Each rank evaluates a part of the batches. of_all_ranks() exchanges the results, so that every rank accumulates all
// of them in the same order. Metrics are accumulated on the host over the whole dataset (trainer/tasks/).

#include "trainer/loop/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "graph/fixed_rows.h"
#include "trainer/comm/evaluation.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/each_number.h"
#include "trainer/tasks/task_rule.h"
#include "trainer/tasks/worst_samples.h"

namespace amp {

double Metrics::value(const std::string& name) const {
  if (name == "loss") return loss;
  for (const auto& [known, v] : values) {
    if (known == name) return v;
  }
  fail(Exit::usage, "E_METRIC", cat("there is no metric '", name, "'"));
}

std::string Metrics::not_finite_text() const {
  // A metric may be NaN although all outputs are finite: it is undefined for these data (AUROC with one class).
  const bool sound = std::isfinite(loss) && not_finite == 0;
  std::vector<std::string> names;
  if (!std::isfinite(loss)) names.emplace_back("loss");
  for (const auto& [name, v] : values) {
    if (std::isinf(v) || (std::isnan(v) && !sound)) names.push_back(name);
  }
  if (names.empty() && sound) return "";
  const std::string what = names.empty() ? "evaluation" : join(names, ", ");
  return cat("W_NOT_FINITE: ", what,
             names.empty()       ? ": "
             : names.size() == 1 ? " is not finite: "
                                 : " are not finite: ",
             not_finite, " of ", samples, " samples have outputs that are NaN or infinite");
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
    if (task_of(s) != Task::none && (!s.label_name().empty() || task_rule(task_of(s)).embeddings)) return &s;
  }
  for (const LossSpec& s : objective.losses.parts) {
    if (loss_rule(s.kind).teacher) return &s;
  }
  return nullptr;
}

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

struct Evaluation {
  Session& session;
  const Objective& objective;
  const LossSpec* const spec = measured_loss(objective);
  const bool unlabeled = spec && task_rule(task_of(*spec)).embeddings;
  const std::string label_name = !spec ? "" : spec->label_name().empty() ? "label" : spec->label_name();

  EvaluatedBatch run(const Batch& batch) const;
};

EvaluatedBatch Evaluation::run(const Batch& batch) const {
  const Tensors tensors = to_tensors(batch, objective.teacher);
  LossAccumulator loss(objective.losses, true);
  loss.count(tensors);
  EvaluatedBatch b;
  Tensors outputs;
  b.sums = session.eval_micro_batch(objective.losses, tensors, spec ? &outputs : nullptr);
  b.items = loss.counted();
  b.rows = batch.rows;
  if (!spec) return b;
  for (const std::string& name : spec->values()) b.outputs.push_back(outputs.at(name));
  b.samples = batch.samples;
  if (unlabeled) return b;
  const auto label = tensors.find(label_name);
  if (label == tensors.end())
    fail(Exit::data, "E_DATA_COLUMN", cat("the validation data has no '", label_name, "'"), "metrics need one");
  b.label = label->second;
  return b;
}

// Returns whether the model computes a loss itself. With a fixed batch size, the padding rows of a short batch affect
// such a loss, so only whole batches are evaluated.
bool computes_loss(const Losses& losses) {
  return std::any_of(losses.parts.begin(), losses.parts.end(),
                     [](const LossSpec& s) { return loss_rule(s.kind).own_output; });
}

std::optional<Metrics> evaluate_until(const StopSignals* stop, Session& session, const Objective& objective,
                                      const Dataset& data, int64_t batch_size, Communicator& ranks) {
  SamplerOptions o;
  o.order = Order::by_length;
  o.batch_size = batch_size;
  o.ranks = ranks.size();
  o.rank = ranks.rank();
  o.whole_batches = fixed_rows(session.source()) > 0 && computes_loss(objective.losses) && data.size() >= batch_size;
  WindowLoader loader(data, make_sampler(data, o), 1);
  const Evaluation evaluation{session, objective};
  const auto make = [&] {
    return make_metrics(objective.task, *evaluation.spec,
                        {objective.classes, data.answers(), objective.answers, objective.target});
  };
  const std::unique_ptr<TaskMetrics> task = evaluation.spec ? make() : nullptr;
  std::optional<GroupMetrics> groups;
  if (task && data.groups()) groups.emplace(*data.groups(), make);
  WorstSamples* const worst = task && ranks.is_root() ? objective.worst : nullptr;
  if (worst) worst->begin(objective, data);
  LossAccumulator loss(objective.losses, true);
  Metrics m;
  while (const auto window = loader.next()) {
    EvaluatedBatch mine;
    mine.stop = stop && stop->requested();
    if (!mine.stop && window->rows > 0) mine = evaluation.run(window->batches.at(0));
    for (const EvaluatedBatch& b : of_all_ranks(ranks, std::move(mine))) {
      if (b.stop) return std::nullopt;
      if (b.rows == 0) continue;
      loss.count(b.items);
      loss.add(b.sums);
      m.samples += b.rows;
      m.not_finite += rows_not_finite(b.outputs, b.rows);
      if (task) task->add(b.outputs, b.label, b.samples);
      if (groups) groups->add(b.outputs, b.label, b.samples);
      if (worst) worst->add(b.outputs, b.label, b.samples);
    }
  }
  m.loss = loss.loss();
  if (task) m.values = task->values(m.loss);
  if (task) m.details = task->details();
  if (worst) worst->finish(*task);
  m.brief = brief_metrics(objective.task).size();
  if (groups) {
    m.group_column = data.groups()->column;
    m.groups = groups->values();
    m.details = add_groups(m.details, m.group_column, m.groups);
  }
  return m;
}

}  // namespace

Metrics evaluate(Session& session, const Objective& objective, const Dataset& data, int64_t batch_size) {
  return evaluate_until(nullptr, session, objective, data, batch_size, one_rank()).value();
}

std::optional<Metrics> evaluate_unless_stopped(const StopSignals& stop, Session& session, const Objective& objective,
                                               const Dataset& data, int64_t batch_size, Communicator& ranks) {
  return evaluate_until(&stop, session, objective, data, batch_size, ranks);
}

}  // namespace amp
