#include "run/evaluate.h"

#include <nlohmann/json.hpp>

#include "run/common.h"
#include "run/data.h"
#include "run/finished_run.h"
#include "run/fixed_inputs.h"
#include "run/fixed_shapes.h"
#include "run/groups.h"
#include "run/images.h"
#include "run/limits.h"
#include "run/losses.h"
#include "run/model_metadata.h"
#include "run/objective.h"
#include "run/prepare.h"
#include "run/surgery.h"
#include "run/unknown_task.h"

namespace amp {

namespace {
std::vector<std::string> known_labels(const ModelDoc& doc) {
  const std::string labels = model_metadata(doc, "labels");
  if (labels.empty()) {
    fail(Exit::usage, "E_LABELS", "the model names no labels (metadata_props has no 'labels')",
         "evaluate a model that this program trained, or tensors");
  }
  try {
    return nlohmann::json::parse(labels).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(Exit::model, "E_LABELS", "metadata_props 'labels' is no JSON array of strings");
  }
}

// What the data must hold; the task that they are read for.
Task needs_of(const RunSpec& spec, const ModelRecord& record, const ModelDoc& doc, DataNeeds& needs) {
  Task task = asked_task(spec);
  const DataKind kind = data_kind(spec, spec.val);
  if (kind == DataKind::tensors) return task;
  if (task == Task::none) task = record.task;
  if (kind == DataKind::images && task == Task::none)
    task = spec.val_masks.empty() ? Task::classification : Task::segmentation;
  if (kind == DataKind::images && task == Task::segmentation) return task;
  needs.sides = kind == DataKind::text && wants_sides(spec);
  if (task == Task::none)
    task = needs.sides ? sides_task(spec) : is_language_model(spec) ? Task::language : Task::classification;
  if (has_named_classes(task)) needs.classes = known_labels(doc);
  return task;
}
}  // namespace

Metrics evaluate_model(const RunSpec& given, const Log& log) {
  set_threads(given);
  asked_losses(given);
  const RunSpec asked = with_run(given, log);
  Imported model = open_model(asked, Job::evaluate, log);
  if (data_kind(asked, asked.val) == DataKind::tensors) bind_fixed_inputs(model.graph, {asked.val}, false, log);
  const ModelRecord record = recorded(*model.doc);
  RunSpec spec = validation_spec(with_recorded(with_letters(asked, Log()), record, log));
  SourceGraph& g = model.graph;
  DataNeeds needs;
  const Task task = needs_of(spec, record, *model.doc, needs);
  require_known_task(spec, g, data_kind(spec, spec.val), task);
  std::string head;
  if (needs.sides && lacks_output(spec)) head = shape_embedding(spec, Job::evaluate, model, log).outputs.front();
  Objective objective = choose_objective(spec, g, head, task, log);
  objective.classes = needs.classes;
  objective.answers = answer_options(spec);
  const std::vector<int> outputs = values_of(g, objective.losses);
  require_known_operators(g, outputs);
  tell_fixed_shapes(fix_shapes(g, outputs), log);
  fit_evaluation_rows(spec, g, needs.sides ? std::ssize(*spec.text_columns) : 1);
  const DataKind kind = data_kind(spec, spec.val);
  const bool text = kind == DataKind::text;
  const int64_t batch_size = spec.evaluation_rows();
  needs.task = kind != DataKind::tensors ? task : objective.task;
  needs.inputs = fed_inputs(g, needed_inputs(g, outputs));
  needs.labels = objective.losses.labels();
  needs.rows_per_item = rows_per_item(objective.losses);
  needs.log = log;
  if (kind == DataKind::features) {
    needs.features = recorded_features(record);
    objective.target = needs.features->target_transform;
  }
  if (kind == DataKind::images) spec = with_transforms(spec, g, needs, read_image_table(spec, spec.val), log);
  if (text) check_vocabulary(spec, g, needs.inputs, log);
  if (text) check_tokenizer(spec, record, log);
  auto all = with_groups(spec, spec.val, open_dataset(spec, spec.val, g, needs, batch_size));
  const int64_t together = rows_in_turn(objective.losses, *all);
  const auto data = limited(std::move(all), spec.limit_val, spec, together);
  check_ranges(record.ranges, data->input_ranges(), spec.val, log);
  check_labels(g, objective.losses, *data);
  tell_cosine_targets(objective.losses, *data, log);
  check_pairs(objective.losses, *data, batch_size, false);
  if (text) require_length(g, outputs, longest_of(spec, *data));
  const PrecisionPlan plan = choose_plan(spec, Job::evaluate, g, log);
  Session session(g, session_options(spec, Job::evaluate, plan, log));
  release_parameters(model);
  Metrics m = evaluate(session, objective, *data, data->size() == 1 ? 1 : batch_size);
  if (const std::string text = m.not_finite_text(); !text.empty()) log.warning(text);
  return m;
}

}  // namespace amp
