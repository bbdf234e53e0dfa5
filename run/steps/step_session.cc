// StepSession is a Trainer without its loop. Each call does what one pass of the loop does: check the batch as the
// readers of files do, build the accumulation step with the sampler's position, and wait for the result. Random numbers
// depend on the seed, the step and the row only, so the steps have the bits of train() on the same batches.
#include "run/steps/step_session.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "data/loader.h"
#include "run/export/export_check.h"
#include "run/export/weights.h"
#include "run/model/require_trained.h"
#include "run/prepare/averages.h"
#include "run/prepare/export_record.h"
#include "run/prepare/fed_checkpoint.h"
#include "run/prepare/memory.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "trainer/comm/evaluation.h"

namespace amp {

namespace {

// Returns the number of input rows of a batch. A label may belong to several consecutive rows, which a loss compares.
int64_t input_rows(const Batch& batch, int64_t rows_per_item) {
  const bool grouped = rows_per_item > 1 && batch.labels && batch.labels.rank() > 0 && !batch.inputs.empty() &&
                       std::all_of(batch.inputs.begin(), batch.inputs.end(), [&](const auto& i) {
                         return i.second.rank() > 0 && i.second.dims()[0] == rows_per_item * batch.labels.dims()[0];
                       });
  return batch.rows * (grouped ? rows_per_item : 1);
}

}  // namespace

StepSession::StepSession(const RunSpec& spec, const Host& host, int64_t samples_per_epoch)
    : fed_(prepare_fed(spec, host, samples_per_epoch)),
      options_(session_options(fed_.run->spec, Job::train, fed_.run->plan, host.log)),
      no_signals_(std::vector<int>{}) {
  PreparedRun& run = *fed_.run;
  per_epoch_ = make_sampler(*run.data.train, run.config.sampler).windows_per_epoch();
}

StepSession::~StepSession() = default;

std::vector<InputSpec> StepSession::inputs() const { return input_specs(fed_.run->graph(), fed_.needs); }

void StepSession::require_prepared() const {
  if (!trainer_)
    fail(Exit::usage, "E_NOT_PREPARED", "the session has no weights yet: no batch was given",
         "call prepare with a batch of the shapes to come, or train_step");
}

CheckedBatch StepSession::checked(const Tensors& batch) const {
  const Losses& losses = fed_.run->config.objective.losses;
  CheckedBatch out = check_fed(batch, fed_.run->graph(), fed_.needs, losses);
  if (session_) check_labels(*session_, losses, *out.data);
  return out;
}

void StepSession::prepare(const Tensors& batch) {
  if (trainer_) return;
  PreparedRun& run = *fed_.run;
  const CheckedBatch c = checked(batch);
  fed_.data->keep(c.batch);
  const Losses& losses = run.config.objective.losses;
  try {
    keep_budget(options_, run.spec.device, run.graph(), run.config, run.data);
    require_room(options_, run.graph(), run.config, run.data);
    auto session = std::make_unique<Session>(run.graph(), options_);
    apply_groups(run.ready.groups, session->layout());
    session->prepare(losses, to_tensors(c.batch, run.ready.objective.teacher));
    if (run.config.max_steps > 0) require_trained(*session);
    check_labels(*session, losses, *c.data);
    release_parameters(run.ready.model);
    trainer_ = std::make_unique<Trainer>(*session, *run.data.train, nullptr, no_signals_, run.config);
    session_ = std::move(session);
  } catch (const Error& e) {
    fail_for_memory(e, run.graph(), options_, run.config, run.data);
  }
}

StepResult StepSession::train_step(std::span<const Tensors> micro_batches) {
  if (micro_batches.empty())
    fail(Exit::usage, "E_USAGE", "a step has no micro-batch", "give at least one batch for each step");
  std::vector<CheckedBatch> batches;
  for (const Tensors& b : micro_batches) batches.push_back(checked(b));
  prepare(micro_batches.front());
  LoadedWindow w;
  for (CheckedBatch& b : batches) {
    fed_.data->observe(b.data->input_ranges());
    b.batch.rows = input_rows(b.batch, fed_.needs.rows_per_item);
    w.first.push_back(w.rows);
    w.rows += b.batch.rows;
    w.valid_items += b.batch.valid_items;
    w.batches.push_back(std::move(b.batch));
  }
  w.all_rows = w.rows;
  w.per_epoch = per_epoch_;
  const int64_t step = trainer_->steps();
  w.at = {step / per_epoch_, step % per_epoch_};
  w.next = {(step + 1) / per_epoch_, (step + 1) % per_epoch_};
  w.last_of_epoch = w.next.window == 0;
  if (step == fed_.run->config.max_steps)
    fed_.run->host.log.warning(cat("W_STEPS: all ", step,
                                   " steps of `max_steps` are done: further steps keep the last "
                                   "learning rate of the schedule, ",
                                   trainer_->lr()));
  return trainer_->step(std::move(w));
}

StepSession::Evaluated StepSession::eval_step(const Tensors& batch) {
  require_prepared();
  CheckedBatch c = checked(batch);
  c.batch.samples.resize(static_cast<size_t>(c.batch.rows));
  std::iota(c.batch.samples.begin(), c.batch.samples.end(), evaluated_);
  if (!evaluator_) evaluator_ = std::make_unique<BatchEvaluator>(*session_, fed_.run->config.objective);
  const EvaluatedWeights weights(*session_, trainer_->evaluated());
  const EvaluatedBatch b = evaluator_->run(c.batch);
  evaluator_->add(b);
  evaluated_ += b.rows;
  const std::vector<std::string> names = evaluator_->outputs();
  outputs_.clear();
  for (size_t i = 0; i < names.size(); ++i) outputs_[names[i]] = b.outputs[i].copied();
  return {evaluator_->loss_of(b), b.rows};
}

Metrics StepSession::eval_finish() {
  if (!evaluator_)
    fail(Exit::usage, "E_USAGE", "no batch was evaluated since the last evaluation ended",
         "call eval_step for each batch first");
  const Metrics m = evaluator_->metrics();
  evaluator_.reset();
  evaluated_ = 0;
  return m;
}

int64_t StepSession::steps() const { return trainer_ ? trainer_->steps() : 0; }
int64_t StepSession::applied_steps() const { return trainer_ ? trainer_->engine().applied_steps() : 0; }

double StepSession::lr() const {
  require_prepared();
  return trainer_->lr();
}

void StepSession::set_lr(double lr) {
  require_prepared();
  if (!(lr >= 0) || !std::isfinite(lr))
    fail(Exit::usage, "E_LR", cat("a learning rate of ", lr), "give a number of at least 0");
  const double planned = Schedule(fed_.run->config.schedule).lr(trainer_->engine().applied_steps());
  if (planned == 0 && lr != 0)
    fail(Exit::usage, "E_LR", cat("the schedule's rate is 0 now, which no factor turns into ", lr),
         "set `lr_scheduler` constant and `warmup_steps` 0 to control the rate by calls");
  // The schedule's rate times this factor must be exactly `lr`, not a neighboring floating-point number.
  double factor = planned == 0 ? 0 : lr / planned;
  for (const double f : {std::nextafter(factor, 0.0), std::nextafter(factor, INFINITY)}) {
    if (planned * factor != lr && planned * f == lr) factor = f;
  }
  trainer_->set_lr_factor(factor);
}

float StepSession::loss_scale() const {
  require_prepared();
  return trainer_->engine().scale().scale;
}

void StepSession::set_loss_scale(float scale) {
  require_prepared();
  trainer_->set_loss_scale(scale);
}

std::string StepSession::save(const std::string& folder) const {
  require_prepared();
  ensure_dir(folder);
  return save_checkpoint(folder, trainer_->checkpoint(), {.save_total_limit = 0});
}

void StepSession::load(const std::string& path) {
  require_prepared();
  Checkpoint c;
  if (is_checkpoint(path)) {
    c = load_checkpoint(path);
  } else {
    Latest latest = find_latest(path);
    if (latest.path.empty())
      fail(Exit::checkpoint, "E_CKPT_MISSING", cat("'", printable(path), "' holds no usable checkpoint"),
           latest.skipped.empty() ? "name a folder checkpoint-N, or the folder of such folders"
                                  : latest.skipped.front());
    c = std::move(latest.checkpoint);
  }
  std::map<std::string, std::string> fixed = fed_.run->config.fixed;
  drop_data_settings(c.hashes, fixed);
  require_same(c.hashes, fixed);
  c.hashes = fed_.run->config.fixed;  // the hashes were already compared
  trainer_->resume(c);
}

HostTensor StepSession::exported_weights() const {
  const std::string& which = fed_.run->spec.output.export_weights;
  if (!names_average(which)) return trainer_->evaluated();
  const HostTensor average = trainer_->average(average_named(fed_.run->spec.optimization, which));
  HostTensor out = session_->host_params().copied();
  for (const Chunk& c : session_->layout().chunks()) {
    if (!c.frozen) std::copy_n(average.as<float>() + c.offset, c.numel, out.as_mutable<float>() + c.offset);
  }
  return out;
}

void StepSession::export_model(const std::string& path) {
  require_prepared();
  PreparedRun& run = *fed_.run;
  const EvaluatedWeights weights(*session_, exported_weights());
  std::map<std::string, std::string> metadata;  // empty: a model that was not trained keeps its own metadata
  if (trainer_->steps() > 0) metadata = model_record(run);
  const std::vector<TrainedTensor> tensors = trained_tensors(*session_);
  if (writes_model(run.spec.output, run.ready.trainable))
    export_weights(run.spec.output, run.ready, run.plan, tensors, metadata, path, run.host.log);
  const WrittenModel written = export_adapters(run.spec.output, run.ready, tensors, run.spec.model.model, path);
  if (!run.spec.output.verify_export) return;
  const ExportReference reference = export_reference(*session_, run.config.objective.losses, export_batch(run));
  const ExportCheck checked = check_export(run, reference, written, false);
  if (checked.error) throw Error(*checked.error).at(cat("in ", printable(path), ", which is written nevertheless"));
}

}  // namespace amp
