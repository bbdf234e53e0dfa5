// The verb eval: loss and metrics of a model on validation data, without training. Settings that the user does not give
// come from the metadata that training stored in the model; for other models, task and classes are inferred as in
// prepare.cc.
#include "run/evaluate/evaluate.h"

#include <algorithm>

#include "data/labels.h"
#include "run/data/bad_rows.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/groups.h"
#include "run/data/images.h"
#include "run/data/limits.h"
#include "run/model/fixed_inputs.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_classes.h"
#include "run/model/model_metadata.h"
#include "run/model/operator_advice.h"
#include "run/model/surgery.h"
#include "run/model/unknown_task.h"
#include "run/prepare/class_weights.h"
#include "run/prepare/common.h"
#include "run/prepare/finished_run.h"
#include "run/prepare/losses.h"
#include "run/prepare/objective.h"
#include "run/prepare/prepare.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
// Returns the task for a table of features. A model with several values per row is a classifier, even if its classes
// are numbers.
Task task_of_table(const RunSpec& spec, const SourceGraph& g) {
  const bool several = std::any_of(g.outputs.begin(), g.outputs.end(), [&](int v) {
    const SourceValue& out = g.value(v);
    return is_float(out.dtype) && out.rank_known && out.dims.size() == 2 && out.dims[1].value > 1;
  });
  return several ? Task::classification
                 : feature_task(spec.data, read_feature_table(spec, spec.data.val, nullptr, Log()));
}

// Infers the task from the validation data's labels, as a training run would.
Task task_of_labels(const RunSpec& spec, const SourceGraph& g) {
  if (is_language_model(spec)) return language_task(spec);
  if (data_kind(spec.data, spec.data.val) == DataKind::features) return task_of_table(spec, g);
  if (data_kind(spec.data, spec.data.val) != DataKind::text) return Task::classification;
  RunSpec trained = spec;
  trained.data.train = spec.data.val;
  return text_task(trained);
}

// Fills in what the dataset must provide, and returns the task by which the labels are read.
Task needs_of(const RunSpec& spec, const ModelRecord& record, const SourceGraph& g, DataNeeds& needs) {
  Task task = requested_task(spec.objective);
  const DataKind kind = data_kind(spec.data, spec.data.val);
  if (kind == DataKind::tensors) return task;
  if (task == Task::none) task = record.task;
  if (kind == DataKind::images && task == Task::none)
    task = spec.data.images.val_masks.empty() ? Task::classification : Task::segmentation;
  needs.sides = kind == DataKind::text && wants_sides(spec.objective);
  if (task == Task::none) task = needs.sides ? sides_task(spec.objective) : task_of_labels(spec, g);
  return task;
}

int64_t mask_classes(const SourceGraph& g, const Objective& objective, Task task) {
  const LossSpec* const loss = measured_loss(objective);
  return loss ? classes_of_output(g, g.find(loss->outputs.at(0)), task) : 0;
}

// Returns the classes of the output that metrics are computed from.
ClassNames classes_of(const RunSpec& spec, const Imported& model, Task task, const Objective& objective,
                      const Log& log) {
  const DataKind kind = data_kind(spec.data, spec.data.val);
  if (kind == DataKind::tensors) task = objective.task;
  const LossSpec* const loss = measured_loss(objective);
  if (!has_named_classes(task) || !loss) return {};
  DataLabels labels;
  if (kind == DataKind::features) {
    labels.texts = distinct_labels(read_table(spec, spec.data.val), target_column(spec.data));
  } else if (kind != DataKind::tensors) {
    labels = read_labels(spec, spec.data.val, task, false);
  }
  return model_classes(spec, model, task, *loss, labels, log).classes;
}
}  // namespace

// Completes the settings from the model's record. If it records no task, also from the names of the data's columns.
static RunSpec evaluated_spec(const RunSpec& asked, const ModelRecord& record, const Log& log) {
  RunSpec spec = with_letters(asked, Log());
  if (record.task == Task::none) spec = with_conversations(std::move(spec), asked.data.val, log);
  return validation_spec(with_recorded(std::move(spec), record, log));
}

Metrics evaluate_model(const RunSpec& given, const Log& log) {
  set_threads(given.device, log);
  requested_losses(given.objective);
  const RunSpec asked = with_label_file(with_run(given, log));
  Imported model = open_model(asked, Job::evaluate, log);
  if (data_kind(asked.data, asked.data.val) == DataKind::tensors)
    bind_fixed_inputs(model.graph, {asked.data.val}, false, log);
  const ModelRecord record = recorded(*model.doc);
  RunSpec spec = with_skipping(evaluated_spec(asked, record, log), {asked.data.val});
  SourceGraph& g = model.graph;
  if (record.task == Task::none && data_kind(spec.data, spec.data.val) == DataKind::text)
    spec = with_problem_type(spec, log);
  if (record.features.empty()) spec = with_fed_columns(spec, g, spec.data.val);
  DataNeeds needs;
  const Task task = needs_of(spec, record, g, needs);
  require_known_task(spec, g, data_kind(spec.data, spec.data.val), task);
  std::string head;
  if (needs.sides && lacks_output(spec.model, spec.objective))
    head = apply_embedding_surgery(spec, Job::evaluate, model, log).outputs.front();
  Objective objective = choose_objective(spec, g, head, task, log);
  needs.classes = classes_of(spec, model, task, objective, log);
  objective.classes = needs.classes.names;
  objective.answers = answer_options(spec.data.text);
  name_class_weights(objective.losses, objective.classes);
  const std::vector<int> outputs = values_of(g, objective.losses);
  require_known_operators(g, outputs);
  log_fixed_shapes(fix_shapes(g, outputs), log);
  fit_evaluation_rows(spec, g, rows_per_sample(spec, task, needs.sides));
  const DataKind kind = data_kind(spec.data, spec.data.val);
  const bool text = kind == DataKind::text;
  const int64_t batch_size = spec.evaluation_rows();
  needs.task = kind != DataKind::tensors ? task : objective.task;
  needs.inputs = fed_inputs(g, needed_inputs(g, outputs));
  needs.labels = objective.losses.labels();
  needs.rows_per_item = rows_per_item(objective.losses);
  needs.log = log;
  if (kind == DataKind::features) {
    needs.features = features_of(spec.data, record, log);
    objective.target = needs.features->target_transform;
  }
  if (kind == DataKind::images && task_rule(task).has_masks()) needs.mask_classes = mask_classes(g, objective, task);
  if (kind == DataKind::images) spec = with_transforms(spec, g, needs, read_image_table(spec, spec.data.val), log);
  if (text) check_vocabulary(spec, g, needs.inputs, log);
  if (text) check_tokenizer(spec, record, log);
  auto all = with_groups(spec, spec.data.val, open_dataset(spec, spec.data.val, g, needs, batch_size));
  const int64_t together = rows_in_turn(objective.losses, *all);
  const auto data = limited(std::move(all), spec.data.limit_val, spec, together);
  check_ranges(record.ranges, data->input_ranges(), spec.data.val, log);
  check_labels(g, objective.losses, *data);
  log_cosine_targets(objective.losses, *data, log);
  check_pairs(objective.losses, *data, batch_size, false);
  if (text) require_length(g, outputs, longest_of(spec.data.text, *data));
  const PrecisionPlan plan = choose_plan(spec.precision, Job::evaluate, g, log);
  Session session(g, session_options(spec, Job::evaluate, plan, log));
  release_parameters(model);
  check_labels(session, objective.losses, *data);
  Metrics m = evaluate(session, objective, *data, data->size() == 1 ? 1 : batch_size);
  if (const std::string text = m.not_finite_text(); !text.empty()) log.warning(text);
  return m;
}

}  // namespace amp
