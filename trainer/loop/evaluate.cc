// Each rank evaluates a part of the batches. of_all_ranks() exchanges the results, so that every rank accumulates all
// of them in the same order. Metrics are accumulated on the host over the whole dataset (trainer/tasks/).

#include "trainer/loop/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/activity.h"
#include "base/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "graph/fixed_rows.h"
#include "trainer/loop/batch_evaluator.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

double Metrics::value(const std::string& name) const {
  if (name == "loss") return loss;
  for (const auto& [known, v] : values) {
    if (known == name) return v;
  }
  std::vector<std::string> names = {"loss"};
  for (const auto& [known, v] : values) names.push_back(known);
  fail(Exit::usage, "E_METRIC", cat("there is no metric '", name, "' for these data"),
       cat("metrics: ", join(names, ", ")));
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
  BatchEvaluator evaluator(session, objective, &data, ranks.is_root() ? objective.worst : nullptr);
  std::optional<Activity> evaluating;
  if (ranks.is_root()) evaluating.emplace("evaluating", "samples", data.size());
  while (const auto window = loader.next()) {
    EvaluatedBatch mine;
    mine.stop = stop && stop->requested();
    if (!mine.stop && window->rows > 0) mine = evaluator.run(window->batches.at(0));
    for (const EvaluatedBatch& b : of_all_ranks(ranks, std::move(mine))) {
      if (b.stop) return std::nullopt;
      if (b.rows > 0) evaluator.add(b);
    }
    if (evaluating) evaluating->reach(evaluator.samples());
  }
  return evaluator.metrics();
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
