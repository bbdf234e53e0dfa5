// prepare_fed(): prepares a run in the order of prepare() (run/prepare/prepare.cc) for data of the kind tensors. It
// leaves out the steps that read files: inspection of labels, datasets and the output folder. Code that needs the
// data fails when it reads FedData.
#include "run/steps/fed_run.h"

#include "base/error.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_classes.h"
#include "run/model/model_file.h"
#include "run/model/unknown_task.h"
#include "run/prepare/class_weights.h"
#include "run/prepare/common.h"
#include "run/prepare/config.h"
#include "run/prepare/finished_run.h"
#include "run/prepare/losses.h"
#include "run/settings/asked_objective.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Fails for settings that need data files or several ranks.
void require_fed(const RunSpec& spec) {
  for (const char* name : {"train", "val", "val_split", "ranks", "lr_range_test", "in_tokens", "weighted_sampling"}) {
    const Setting& s = setting_named(name);
    if (value_of(spec, s) == s.default_for(Job::train)) continue;
    fail(Exit::usage, "E_USAGE",
         cat('`', name, "` ", value_text(value_of(spec, s)), ": the calling program feeds the batches of this session"),
         "leave it out, or run the whole job from files");
  }
}

int64_t samples_of(const RunSpec& spec, int64_t samples_per_epoch) {
  if (samples_per_epoch > 0) return samples_per_epoch;
  if (spec.schedule.max_steps < 0)
    fail(Exit::usage, "E_USAGE", "the number of steps is not known, which the learning-rate schedule depends on",
         "set `max_steps`, or say how many samples an epoch has");
  return std::max<int64_t>(
      2, spec.schedule.max_steps * spec.schedule.batch_size * spec.schedule.gradient_accumulation_steps);
}

DataNeeds needs_of(PreparedRun& run) {
  const SourceGraph& g = run.graph();
  Objective& objective = run.ready.objective;
  DataNeeds needs;
  needs.training = true;
  needs.task = objective.task;
  needs.inputs = fed_inputs(g, needed_inputs(g, run.ready.outputs));
  needs.labels = objective.losses.labels();
  needs.rows_per_item = rows_per_item(objective.losses);
  needs.log = run.host.log;
  run.teacher = open_teacher(run.spec, objective.losses, run.host.log);
  if (run.teacher) {
    objective.teacher = run.teacher->teacher.get();
    needs.more_inputs = run.teacher->inputs(input_specs(g, needs.inputs));
  }
  return needs;
}

}  // namespace

FedRun prepare_fed(const RunSpec& given, const Host& host, int64_t samples_per_epoch) {
  require_fed(given);
  RunSpec spec = with_letters(with_label_file(with_model_files(given, host.log)), host.log);
  refuse_merged_adapter(spec.model);
  set_threads(spec.device, host.log);
  requested_losses(spec.objective);
  requested_groups(spec.optimization);
  FedRun out;
  out.run = std::make_unique<PreparedRun>();
  PreparedRun& run = *out.run;
  run.host = host;
  run.mode = Mode::estimate;
  Imported model = open_model(spec, Job::train, host.log);
  run.facts.task = requested_task(spec.objective);
  require_known_task(spec, model.graph, DataKind::tensors, run.facts.task);
  run.ready = prepare_model(spec, Job::train, std::move(model), run.facts, host.log);
  fit_batch_size(spec, run.graph(), 1, host.log);
  run.spec = spec;
  auto data = std::make_unique<FedData>(samples_of(spec, samples_per_epoch));
  out.data = data.get();
  run.data.train = std::move(data);
  out.needs = needs_of(run);
  Objective& objective = run.ready.objective;
  if (const LossSpec* const loss = measured_loss(objective))
    balance_class_weights(objective.losses, *run.data.train,
                          classes_of_output(run.graph(), run.graph().find(loss->values().front()), out.needs.task),
                          objective.classes, host.log);
  run.plan = choose_plan(spec.precision, Job::train, run.graph(), host.log);
  run.config = trainer_config(spec, run.plan, objective, run.data);
  run.config.groups = [groups = run.ready.groups](FlatLayout& layout) { apply_groups(groups, layout); };
  run.config.log = host.log;
  run.config.on_progress = host.progress;
  return out;
}

}  // namespace amp
