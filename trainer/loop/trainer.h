// Trainer: the training loop. A step consists of micro-batches, finite check, unscaling, clipping, optimizer, EMA and
// the update of the loss scale. Steps count attempts; schedule, EMA, running statistics and the optimizer's t count
// applied steps.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/loader.h"
#include "precision/loss_scaler.h"
#include "trainer/comm/communicator.h"
#include "trainer/compile/session.h"
#include "trainer/loop/best_metric.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/checkpoint_writer.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/metrics_log.h"
#include "trainer/loop/plateau.h"
#include "trainer/loop/progress_state.h"
#include "trainer/loop/save_policy.h"
#include "trainer/loop/schedule.h"
#include "trainer/loop/skip_watch.h"
#include "trainer/loop/step_engine.h"
#include "trainer/loop/stop.h"

namespace amp {

struct TrainerConfig {
  // Must outlive the trainer. All ranks share the evaluation; only the root rank writes files. A stop request on any
  // rank stops all.
  Communicator* ranks = &one_rank();
  Objective objective;
  OptimizerConfig optimizer;
  std::function<void(FlatLayout&)> groups;  // sets per-parameter options; used by the memory estimate
  ScheduleConfig schedule;
  LossScaleConfig scale;
  SamplerOptions sampler;
  bool gradient_cache = false;  // losses across rows use all rows of a step (trainer/loop/gradient_cache.h)
  int64_t max_steps = 0;        // number of attempted steps
  double max_seconds = 0;       // limit for this process's training, evaluations included; 0: no limit
  int64_t eval_batch_size = 32;
  int64_t eval_steps = 0;  // 0: at the end of each epoch
  int64_t save_steps = 0;  // 0: only as save_strategy defines
  SaveStrategy save_strategy = SaveStrategy::epoch;
  int64_t save_total_limit = 2;
  // Largest number of bytes of memory for copies of checkpoints; -1: a quarter of the free memory. A checkpoint that
  // does not fit is saved without a copy, and training waits until it is written.
  int64_t copy_bytes = -1;
  int64_t max_consecutive_skips = 50;  // 0: never stop
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;  // smallest improvement that counts
  std::string best_metric = "accuracy";
  std::string output_dir;
  std::map<std::string, std::string> fixed;        // settings and files that must be equal to resume
  std::function<bool(int64_t)> inject_overflow;    // for tests; called with the attempted step
  std::function<void(const StepResult&)> on_step;  // called after each attempted step
  std::function<void(const StepLine&)> on_line;    // called for each line of metrics.jsonl; root rank only
  std::function<void(int64_t, const Metrics&)>
      on_eval;  // called with step and metrics of an evaluation; root rank only
  std::function<void(const ProgressState&)> on_progress;  // called after each attempted step and at the end
  std::function<void(int64_t, const char*)> doing;  // called with the next step and the current phase ("training")
  // Called before a checkpoint is written, also from the thread that writes; may fail. Root rank only.
  std::function<void()> before_save;
  Log log;
  bool initial_eval = true;
  bool saves = true;         // whether checkpoints are written
  int64_t sync_every = 1;    // local SGD: steps between averages of the ranks' weights; 1: all-reduce each step
  bool overlap_sums = true;  // overlap the gradient all-reduce with backward
  DType grad_reduce_dtype = DType::f32;  // element type of the gradient all-reduce (StepEngine::Options)
  std::function<bool()> enough;          // called after each step; true ends training
  std::function<bool()> stop;            // called after each step; true stops as a signal does, with a checkpoint
};

struct TrainResult {
  bool stopped = false;  // by a signal, or after max_seconds
  int signal = 0;        // signal that one of the ranks received; 0: none
  bool saved = false;    // a checkpoint contains all completed work
  int64_t steps = 0, applied = 0, skipped = 0;
  int64_t best_step = -1;  // step of the best evaluation; -1: there was none
  double best_value = 0;   // value of config.best_metric at that step
  std::optional<Metrics> initial, last;
  int64_t losses_not_finite = 0;  // steps whose loss was NaN or infinite
  double seconds = 0;             // training time without evaluations
  double waited = 0;              // part of `seconds` that was spent waiting for data
  // Seconds of the gradient all-reduce, and of waiting for it.
  double sum_seconds = 0, sum_waited = 0;
  int64_t samples = 0, tokens = 0;
};

class Trainer {
 public:
  // val may be null. The session, the data and the signals must outlive the trainer.
  Trainer(Session& session, const Dataset& train, const Dataset* val, const StopSignals& stop, TrainerConfig config);

  // Throws E_CKPT_MISMATCH, E_CKPT_MANIFEST or E_CKPT_STATE (Exit::checkpoint) for a checkpoint of another run,
  // and for one whose state no run has.
  void resume(const Checkpoint& checkpoint);
  TrainResult run();
  TrainResult reached() const;  // after resume(), without running

  // Used by programs that feed the batches instead of calling run(). step() computes one accumulation step and waits
  // for its result. It calls the callbacks of the configuration, but evaluates and saves nothing. The batches may be
  // released afterwards. Throws E_DIVERGED as run() does.
  StepResult step(LoadedWindow window);
  Checkpoint checkpoint() const { return checkpoint(next_); }  // its tensors are views that the next step overwrites
  int64_t steps() const { return step_; }                      // number of attempted steps
  double lr() const;                                           // learning rate of the next step
  // Sets a factor of the schedule's learning rates from the next step on. Checkpoints store it.
  void set_lr_factor(double factor);
  void set_loss_scale(float scale) { engine_.set_loss_scale(scale); }

  // Returns moving average k with the layout of the trainable parameters; empty without EMA.
  HostTensor average(int k) const { return engine_.average(k); }
  // Returns all parameters as evaluated and exported, for optimizers that train others (schedule-free); else empty.
  HostTensor evaluated() const { return engine_.evaluated(); }
  const StepEngine& engine() const { return engine_; }

 private:
  struct Clock {
    double started = 0, evaluating = 0, last = 0;
  };
  void submit(LoadedWindow window);
  bool submit_next(WindowLoader& loader, bool& epoch_end);
  void take_steps(bool all, TrainResult& result, Clock& clock);  // all: waits for the results of all steps
  void on_step_done(const StepResult& s, TrainResult& result, const Clock& clock);
  void doing(const char* phase) const;
  bool local() const { return config_.sync_every > 1 && ranks_.size() > 1; }
  void stopped(TrainResult& result);  // collective
  // Collective: whether `wish` is true on any rank. If one rank has disabled padding removal, all disable it.
  bool on_any(bool wish);
  std::optional<Metrics> evaluate();  // evaluates the current weights on val; empty: stopped before the end
  bool evaluate_now();                // true: the best so far
  bool evaluate_timed(Clock& clock);
  // Saves if a checkpoint is due, the evaluation was the best, or the run ends (early: before max_steps).
  void save_if_needed(bool due, bool better, bool early, Clock& clock);
  void watch_plateau(double metric);
  void finish(TrainResult& result) const;
  // Returns the checkpoint of this step; its tensors are views of the session's memory.
  Checkpoint checkpoint(const SamplerState& next) const;
  // Writes the held checkpoint and this step's, in the background unless `at_end` or memory is short.
  void save(const SamplerState& next, bool at_end);
  bool save_due(bool epoch_end);  // whether a checkpoint is due by steps or epochs; the same on all ranks
  bool affordable();              // whether the root's SaveBudget affords a checkpoint; the same on all ranks
  // Keeps this step's checkpoint in memory. False: it must be written now, because of the strategy, the budget or too
  // little memory.
  bool hold_best(const SamplerState& next);
  // Makes a checkpoint's tensors copies that later steps do not overwrite; `others` copies exist already. False: there
  // is too little memory.
  bool keep(Checkpoint& checkpoint, int64_t others);
  Save save_of(std::vector<Checkpoint> checkpoints) const;
  void write(std::vector<Checkpoint> checkpoints);  // returns when the checkpoints are durable
  void account(const SaveResult& result);           // counts the save's time and reports its warnings
  void write_held();  // completes the save in progress, and writes the best checkpoint if it is still held
  std::vector<const MetricsLog*> logs() const;     // those of log_ and evaluations_ that are open
  void settle();                                   // at the end: completes all saves, syncs the logs, prunes
  void warn_of_old(const std::string& why) const;  // an old checkpoint could not be removed
  SaveOptions save_options() const;
  TrainResult run_steps();
  bool out_of_patience() const;  // early stopping
  bool ended_early() const;      // as out_of_patience(); logs a note if steps remain
  bool out_of_time() const;      // max_seconds has passed and steps remain
  [[noreturn]] void diverged(const StepResult& last, const LoadedWindow& window);

  Session& session_;
  Communicator& ranks_;
  const Dataset& train_;
  const Dataset* val_;
  const StopSignals& stop_;
  TrainerConfig config_;
  StepEngine engine_;
  SkipWatch skips_;
  double began_;  // time at which training began, in seconds
  std::optional<Plateau> plateau_;
  std::deque<LoadedWindow> pending_;  // submitted steps without a result yet
  int64_t per_epoch_ = 1, first_step_ = 0;
  int64_t step_ = 0;  // number of attempted steps
  int64_t saved_step_ = -1;
  SaveBudget budget_;
  std::optional<Checkpoint> held_;  // root only: the best checkpoint, if the budget did not permit writing it yet
  std::optional<MetricsLog> log_, evaluations_;  // root only, during run(); metrics.jsonl and eval.jsonl
  CheckpointWriter writer_;                      // declared after the logs, which its saves use
  bool evaluation_due_ = false;                  // an evaluation was interrupted; a resumed run repeats it
  bool warned_empty_ = false, warned_not_finite_ = false, warned_no_copy_ = false;
  bool noted_evaluations_ = false;
  struct {
    double at = 0;
    int64_t bytes = 0;
  } memory_;  // peak resident bytes, and when they were read
  SamplerState next_;
  BestMetric best_;
  std::optional<Metrics> initial_, last_;  // the first and the last evaluation, also before a resume
  int64_t losses_not_finite_ = 0;
  double lr_factor_ = 1;
  TrainResult fed_;  // sums over all calls of step()
};

}  // namespace amp
