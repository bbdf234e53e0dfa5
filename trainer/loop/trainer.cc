// The training loop. Results arrive later than submit() on a GPU, so everything that reads weights (evaluation,
// checkpoints) first takes all pending steps. All decisions that change the control flow are equal on all ranks;
// otherwise collectives would deadlock. Checkpoints are in save_and_resume.cc.

#include "trainer/loop/trainer.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "trainer/comm/evaluation.h"
#include "trainer/compile/first_nonfinite.h"
#include "trainer/compile/flat_views.h"

namespace amp {

namespace {
// Seconds spent on evaluations before a note may say that they take most of the time.
constexpr double kNoted = 10;
constexpr double kMemoryRenewal = 1;  // seconds between readings of the peak memory, which take longer than small steps
}  // namespace

Trainer::Trainer(Session& session, const Dataset& train, const Dataset* val, const StopSignals& stop,
                 TrainerConfig config)
    : session_(session),
      ranks_(*config.ranks),
      train_(train),
      val_(val),
      stop_(stop),
      config_(std::move(config)),
      engine_(session, config_.optimizer, config_.schedule, config_.scale, config_.objective.losses, config_.max_steps,
              ranks_,
              {config_.gradient_cache, config_.sync_every > 1, config_.overlap_sums, config_.grad_reduce_dtype}),
      skips_(config_.scale, false),
      began_(steady_seconds()),
      writer_(config_.output_dir + "/checkpoints") {
  if (Plateau::asked(config_.schedule)) plateau_.emplace(config_.schedule, lower_is_better(config_.best_metric));
}

std::optional<Metrics> Trainer::evaluate() {
  doing("evaluation");
  const EvaluatedWeights weights(session_, evaluated());
  const PaddingGuard::Counts checks = session_.padding_guard().counts();
  std::optional<Metrics> m =
      evaluate_unless_stopped(stop_, session_, config_.objective, *val_, config_.eval_batch_size, ranks_);
  if (!m) session_.padding_guard().restore(checks);  // the evaluation was stopped; the resumed run repeats it
  const std::string text = m && !warned_not_finite_ ? m->not_finite_text() : "";
  if (!text.empty()) config_.log.warning(cat(text, " (evaluation at step ", step_, "; reported once)"));
  warned_not_finite_ = warned_not_finite_ || !text.empty();
  return m;
}

void Trainer::doing(const char* phase) const {
  if (config_.doing) config_.doing(step_, phase);
}

bool Trainer::on_any(bool wish) {
  if (ranks_.size() == 1) return wish;
  double asked[] = {wish ? 1.0 : 0.0, session_.padding_guard().off() ? 1.0 : 0.0};
  ranks_.all_reduce(std::span<double>(asked), Reduction::max);
  if (asked[1] > 0) session_.padding_guard().turn_off();
  return asked[0] > 0;
}

void Trainer::stopped(TrainResult& result) {
  double signal[] = {static_cast<double>(stop_.signal())};
  if (ranks_.size() > 1) ranks_.all_reduce(std::span<double>(signal), Reduction::max);
  result.stopped = true;
  result.signal = static_cast<int>(signal[0]);
}

void Trainer::submit(LoadedWindow window) {
  StepInput w;
  w.step = step_;
  w.losses = &config_.objective.losses;
  LossAccumulator loss(config_.objective.losses);
  for (const Batch& batch : window.batches) {
    w.batches.push_back(to_tensors(batch, config_.objective.teacher));
    w.rows.push_back(batch.rows * train_.rows_per_sample());
    loss.count(w.batches.back());
  }
  for (const int64_t samples : window.first) w.before.push_back(samples * train_.rows_per_sample());
  w.all_rows = window.all_rows * train_.rows_per_sample();
  const LossAccumulator own = loss;
  if (local()) w.own_items = &own;
  if (ranks_.size() > 1) {
    if (!local()) w.share = static_cast<double>(window.rows) / static_cast<double>(window.all_rows);
    ranks_.all_reduce(std::span(loss.items_by_term()), Reduction::sum);
  }
  w.inject_overflow = config_.inject_overflow && config_.inject_overflow(step_);
  if (loss.items() == 0 && !warned_empty_) {
    warned_empty_ = true;
    config_.log.warning(cat("W_NO_ITEMS: every label of step ", step_,
                            " is ignored: its loss and its gradients are 0 (reported once)"));
  }
  engine_.submit(w, loss);
  pending_.push_back(std::move(window));
}

// Handles the result of the oldest pending step.
void Trainer::on_step_done(const StepResult& s, TrainResult& result, const Clock& clock) {
  const LoadedWindow window = std::move(pending_.front());
  pending_.pop_front();
  result.samples += window.all_rows;
  result.waited += window.waited;
  result.sum_seconds += s.sums.seconds;
  result.sum_waited += s.sums.waited;
  result.tokens += window.tokens;
  result.applied = s.applied_steps;
  result.skipped += s.skipped();
  losses_not_finite_ += !std::isfinite(s.loss);
  const double t = steady_seconds(), dt = std::max(t - clock.last, 1e-9);

  StepLine line;
  line.step = s.step + 1;
  line.epoch = static_cast<double>(window.at.epoch) +
               static_cast<double>(window.at.window + 1) / static_cast<double>(window.per_epoch);
  line.loss = s.loss;
  line.lr = s.lr;
  line.loss_scale = s.scale.used;
  line.grad_norm = s.grad_norm;
  line.skipped = s.skipped();
  line.samples_per_s = static_cast<double>(window.all_rows) / dt;
  line.tokens_per_s = static_cast<double>(window.tokens) / dt;
  line.data_seconds = window.waited;
  if (ranks_.size() > 1) line.sums = {s.sums.seconds, s.sums.waited};
  if (t - memory_.at > kMemoryRenewal) memory_ = {t, peak_rss_bytes()};
  line.memory = memory_.bytes;
  if (log_) log_->write(line);
  if (log_ && config_.on_line) config_.on_line(line);
  ProgressState p;
  p.step = line.step;
  p.total = config_.max_steps;
  p.first_step = first_step_;
  p.epoch = line.epoch;
  p.loss = s.loss;
  p.lr = s.lr;
  p.seconds = t - clock.started - clock.evaluating;
  p.samples_per_s = static_cast<double>(result.samples) / std::max(p.seconds, 1e-9);
  p.skipped = result.skipped;
  p.memory = line.memory;
  if (config_.on_progress) config_.on_progress(p);
  if (const SkipWatch::Message m = skips_.observe(s.scale); !m.text.empty())
    config_.log.say(m.alarm ? Level::warning : Level::info, m.text);
  if (config_.on_step) config_.on_step(s);
  if (config_.max_consecutive_skips > 0 && s.scale.consecutive_skips >= config_.max_consecutive_skips)
    diverged(s, window);
}

void Trainer::take_steps(bool all, TrainResult& result, Clock& clock) {
  while (const std::optional<StepResult> s = engine_.take(all)) {
    on_step_done(*s, result, clock);
    clock.last = steady_seconds();
  }
}

// Submits the next accumulation step; false if the data has ended.
bool Trainer::submit_next(WindowLoader& loader, bool& epoch_end) {
  doing("training");
  std::optional<LoadedWindow> window = loader.next();
  if (!window) return false;
  next_ = window->next;
  per_epoch_ = window->per_epoch;
  epoch_end = window->last_of_epoch || step_ + 1 >= config_.max_steps;
  submit(std::move(*window));
  ++step_;
  return true;
}

StepResult Trainer::step(LoadedWindow window) {
  next_ = window.next;
  per_epoch_ = window.per_epoch;
  submit(std::move(window));
  ++step_;
  const std::optional<StepResult> done = engine_.take(true);
  check(done.has_value(), "a step without a result");
  Clock clock;
  clock.started = began_;
  clock.last = steady_seconds();
  on_step_done(*done, fed_, clock);
  return *done;
}

double Trainer::lr() const { return Schedule(config_.schedule).lr(engine_.applied_steps()) * lr_factor_; }

void Trainer::set_lr_factor(double factor) {
  lr_factor_ = factor;
  engine_.set_lr_scale(factor);
}

TrainResult Trainer::run() {
  try {
    return run_steps();
  } catch (...) {  // completes saves before the error is reported
    try {
      write_held();
    } catch (const Error& e) {
      config_.log.warning(cat("W_CKPT_WRITE: a checkpoint could not be written: ", e.fact()));
    }
    throw;
  }
}

TrainResult Trainer::run_steps() {
  TrainResult result = reached();
  result.initial.reset();
  if (val_ && config_.initial_eval && !initial_ && !(initial_ = evaluate())) {
    stopped(result);
    result.saved = saved_step_ >= 0;
    return result;
  }
  if (ranks_.is_root()) log_.emplace(config_.output_dir + "/metrics.jsonl", step_);
  Sampler sampler = make_sampler(train_, config_.sampler);
  sampler.seek(next_);
  per_epoch_ = sampler.windows_per_epoch(next_.epoch);
  WindowLoader loader(train_, std::move(sampler));
  first_step_ = step_;
  Clock clock;
  clock.started = clock.last = steady_seconds();
  bool stop = ended_early();
  skips_ = SkipWatch(config_.scale, step_ > 0);
  while ((step_ < config_.max_steps || evaluation_due_) && !stop) {
    account(writer_.take());
    const bool late = std::exchange(evaluation_due_, false);
    bool epoch_end = late, eval_due = late && val_;
    if (!late) {
      if (!submit_next(loader, epoch_end)) break;
      eval_due = val_ && (epoch_end || (config_.eval_steps > 0 && step_ % config_.eval_steps == 0));
    }
    // Between two averages the weights differ among the ranks. Evaluation, checkpoints and stops wait for the next
    // average.
    if (local() && !late && !epoch_end && step_ % config_.sync_every != 0) {
      take_steps(false, result, clock);
      continue;
    }
    if (!late) engine_.average_ranks();
    const bool due = save_due(epoch_end);
    bool asked_to_stop = on_any(stop_.requested() || out_of_time() || (config_.stop && config_.stop()));
    // Evaluations and checkpoints read the weights, so they need the results of all submitted steps.
    take_steps(eval_due || due || asked_to_stop, result, clock);
    if (config_.enough && config_.enough()) {
      take_steps(true, result, clock);
      break;
    }
    bool better = false;
    if (eval_due) {
      better = evaluate_timed(clock);
      asked_to_stop |= evaluation_due_;
      stop = ended_early();
    }
    save_if_needed(due, better, stop || asked_to_stop, clock);
    if (asked_to_stop) {
      save(next_, true);
      stopped(result);
      break;
    }
  }
  settle();
  result.seconds = steady_seconds() - clock.started - clock.evaluating;
  if (config_.optimizer.averages() > 0) engine_.gather();  // the export reads the averages
  finish(result);
  return result;
}

bool Trainer::evaluate_timed(Clock& clock) {
  const double before = steady_seconds();
  const bool better = evaluate_now();
  clock.last = steady_seconds();
  clock.evaluating += clock.last - before;
  const double all = clock.last - clock.started;
  if (clock.evaluating > std::max(kNoted, all / 2) && !std::exchange(noted_evaluations_, true)) {
    config_.log.note(cat("evaluations have taken ", std::lround(100 * clock.evaluating / all), " % of the time so far ",
                         "(one follows each epoch, of ", per_epoch_, per_epoch_ == 1 ? " step" : " steps",
                         "); `limit_val` evaluates on fewer samples"));
  }
  return better;
}

void Trainer::save_if_needed(bool due, bool better, bool early, Clock& clock) {
  if (!due && !((early || better) && config_.save_strategy != SaveStrategy::none)) return;
  // A checkpoint may be due only because it is the best so far. It may then stay in memory until SaveBudget permits a
  // save.
  if (due || early || !hold_best(next_)) save(next_, early || step_ >= config_.max_steps);
  clock.last = steady_seconds();
}

void Trainer::finish(TrainResult& result) const {
  if (config_.on_progress) {
    ProgressState p;
    p.over = true;
    config_.on_progress(p);
  }
  const TrainResult at = reached();
  result.steps = at.steps;
  result.applied = at.applied;
  result.skipped = at.skipped;
  result.best_step = at.best_step;
  result.best_value = at.best_value;
  result.saved = at.saved;
  result.initial = at.initial;
  result.last = at.last;
  result.losses_not_finite = at.losses_not_finite;
}

bool Trainer::out_of_patience() const {
  return !evaluation_due_ && config_.early_stopping_patience > 0 &&
         best_.evals_since >= config_.early_stopping_patience;
}

// The time is checked only after a step was submitted. So every resumed run makes progress, however short its limit is.
bool Trainer::out_of_time() const {
  return config_.max_seconds > 0 && step_ < config_.max_steps && steady_seconds() - began_ >= config_.max_seconds;
}

bool Trainer::ended_early() const {
  if (!out_of_patience()) return false;
  if (step_ < config_.max_steps) {
    config_.log.note(cat("early stopping ended this run: ", best_.evals_since,
                         " evaluations without a better one; a larger `early_stopping_patience` lets it go on"));
  }
  return true;
}

TrainResult Trainer::reached() const {
  TrainResult r;
  r.steps = step_;
  r.applied = engine_.applied_steps();
  r.skipped = engine_.scale().total_skips;
  r.best_step = best_.step;
  r.best_value = best_.value;
  r.saved = saved_step_ == step_;
  r.initial = initial_;
  r.last = last_;
  r.losses_not_finite = losses_not_finite_;
  return r;
}

bool Trainer::evaluate_now() {
  const std::optional<Metrics> found = evaluate();
  evaluation_due_ = !found;
  if (!found) return false;
  const Metrics& m = *found;
  last_ = m;
  const double v = m.value(config_.best_metric);
  const bool better = best_.observe(v, step_, lower_is_better(config_.best_metric), config_.early_stopping_threshold);
  if (better) held_.reset();
  JsonObject line;
  const double epoch =  // number of completed epochs, with a fraction, as in metrics.jsonl
      static_cast<double>(next_.epoch) + static_cast<double>(next_.window) / static_cast<double>(per_epoch_);
  line.add("step", step_).add("epoch", epoch).add("loss", m.loss);
  std::string text = cat("evaluation at step ", step_, ": loss ", m.loss);
  for (size_t i = 0; i < m.values.size(); ++i) {
    const auto& [name, value] = m.values[i];
    line.add(name, value);
    if (i < m.brief || name == config_.best_metric) text += cat(", ", name, " ", value);
  }
  line.add("samples", m.samples).add("best", better);
  if (ranks_.is_root()) {
    if (!evaluations_) evaluations_.emplace(config_.output_dir + "/eval.jsonl", step_ - 1);
    evaluations_->write_line(line.str());
  }
  config_.log.info(text);
  if (ranks_.is_root() && config_.on_eval) config_.on_eval(step_, m);
  watch_plateau(v);
  return better;
}

// Requires that no step is pending.
void Trainer::watch_plateau(double metric) {
  if (!plateau_ || !plateau_->observe(metric)) return;
  engine_.set_lr_scale(plateau_->scale());
  config_.log.info(
      cat("no better ", config_.best_metric, " for too long: the learning rate falls to ", plateau_->lr()));
}

void Trainer::diverged(const StepResult& last, const LoadedWindow& window) {
  LossAccumulator loss(config_.objective.losses);
  std::vector<Tensors> batches;
  for (const Batch& batch : window.batches) {
    batches.push_back(to_tensors(batch, config_.objective.teacher));
    loss.count(batches.back());
  }
  session_.state().step = last.step;
  std::string parameter;
  if (session_.grads()) parameter = first_nonfinite(session_.layout(), session_.host_grads().as<float>());
  const std::string value =
      first_nonfinite_value(session_, config_.objective.losses, batches, loss.seeds(last.scale.used));
  fail(Exit::numerical, "E_DIVERGED",
       cat(last.scale.consecutive_skips, " steps in a row had non-finite gradients (loss scale ", last.scale.next, ")",
           parameter.empty() ? "" : cat("; the first non-finite gradient is that of '", printable(parameter), "'"),
           value.empty() ? "" : "; ", value),
       "lower `lr`, try `use_bf16`, or let `amp_level` auto find the operators that need fp32 (by hand: a rule in "
       "`precision_plan`)");
}

}  // namespace amp
