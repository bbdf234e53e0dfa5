// Trainer: the loop. A step is one accumulation window: micro-batches, finite check, unscale, clip, optimizer, EMA,
// scale.
// Steps count attempts; schedule, EMA, running statistics and the optimizer's t count applied ones.
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
  // What rank this is; it outlives the trainer. Only the first one evaluates and writes; its checkpoint and its stop
  // are everybody's.
  Communicator* ranks = &one_rank();
  Objective objective;
  OptimizerConfig optimizer;
  std::function<void(FlatLayout&)> groups;  // what parameters have of their own; for the memory estimate
  ScheduleConfig schedule;
  LossScaleConfig scale;
  SamplerOptions sampler;
  bool gradient_cache = false;  // losses across rows see those of a window (trainer/loop/gradient_cache.h)
  int64_t max_steps = 0;        // attempted steps
  double max_seconds = 0;       // of this process's training, evaluations included; 0: no limit
  int64_t eval_batch_size = 32;
  int64_t eval_steps = 0;  // 0: at the end of each epoch
  int64_t save_steps = 0;  // 0: as save_strategy says
  SaveStrategy save_strategy = SaveStrategy::epoch;
  int64_t save_total_limit = 2;
  int64_t max_consecutive_skips = 50;  // 0: never stop
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;  // by how much more than this a metric must be better
  std::string best_metric = "accuracy";
  std::string output_dir;
  std::map<std::string, std::string> fixed;        // settings and files that must be the same to resume
  std::function<bool(int64_t)> inject_overflow;    // by attempted step
  std::function<void(const StepResult&)> on_step;  // after each attempted step
  std::function<void(const StepLine&)> on_line;    // the same as metrics.jsonl has it; first rank
  std::function<void(int64_t, const Metrics&)>
      on_eval;  // of the step that was reached, as eval.jsonl has it; first rank
  std::function<void(const ProgressState&)> on_progress;  // the same for people; once more at the end
  std::function<void(int64_t, const char*)> doing;        // which step is next, and what is done now: "training"
  Log log;
  bool initial_eval = true;
  bool saves = true;                  // checkpoints
  int64_t sync_every = 1;             // steps between averages of the ranks' weights; 1: gradients are summed in each
  bool overlap_sums = true;           // of gradients over the ranks, with backward
  DType sent_gradients = DType::f32;  // what ranks exchange to sum them (StepEngine::Options)
  std::function<bool()> enough;       // asked after each step: stops here
};

struct TrainResult {
  bool stopped = false;  // by a signal, or after max_seconds
  int signal = 0;        // that one of the ranks was given; 0: none
  bool saved = false;    // a checkpoint holds all that was done
  int64_t steps = 0, applied = 0, skipped = 0;
  int64_t best_step = -1;  // of the best evaluation; -1: there was none
  double best_value = 0;   // of config.best_metric at that step
  std::optional<Metrics> initial, last;
  double seconds = 0;  // of training, evaluation left out
  double waited = 0;   // of these for data
  // That sums of gradients over the ranks were under way, and that they were waited for.
  double sum_seconds = 0, sum_waited = 0;
  int64_t samples = 0, tokens = 0;
};

class Trainer {
 public:
  // val may be null. The session, the data and the signals must outlive the trainer.
  Trainer(Session& session, const Dataset& train, const Dataset* val, const StopSignals& stop, TrainerConfig config);

  void resume(const Checkpoint& checkpoint);
  TrainResult run();
  TrainResult reached() const;  // after resume(), without running

  // laid out like the parameters that train; empty without EMA
  HostTensor average(int k) const { return engine_.average(k); }
  // All parameters as they are evaluated and exported, of a rule that trains others; else empty.
  HostTensor evaluated() const { return engine_.evaluated(); }
  const StepEngine& engine() const { return engine_; }

 private:
  struct Clock {
    double started = 0, evaluating = 0, last = 0;
  };
  void submit(LoadedWindow window);
  bool submit_next(WindowLoader& loader, bool& epoch_end);
  void take_steps(bool all, TrainResult& result, Clock& clock, std::optional<MetricsLog>& log);  // all: waits for them
  void on_step_done(const StepResult& s, TrainResult& result, const Clock& clock, std::optional<MetricsLog>& log);
  void doing(const char* phase) const;
  bool local() const { return config_.sync_every > 1 && ranks_.size() > 1; }
  void stopped(TrainResult& result);       // by all ranks together
  bool on_any(bool wish);                  // of the ranks; where one of them gave up removing padding, all do
  std::optional<Metrics> evaluate();       // of the current weights on val; none: stopped before its end
  bool evaluate_now(TrainResult& result);  // true: the best so far
  void watch_plateau(double metric);
  void finish(TrainResult& result) const;
  Checkpoint checkpoint(const SamplerState& next) const;  // of this step; its tensors are views of the session's memory
  void save(const SamplerState& next);
  bool save_due(bool epoch_end);  // by steps and epochs; the same on all ranks
  bool affordable();              // by the leader's budget; the same on all ranks
  // Keeps this step's checkpoint in memory. False: it is to be written now, as the strategy, the budget or memory says.
  bool hold_best(const SamplerState& next);
  void write_held();  // writes the best checkpoint if it is still held
  void write(const Checkpoint& checkpoint);
  TrainResult run_steps();
  bool out_of_patience() const;  // early stopping
  bool ended_early() const;      // so, before it was resumed
  bool out_of_time() const;      // with steps left
  [[noreturn]] void diverged(const StepResult& last, const LoadedWindow& window);

  Session& session_;
  Communicator& ranks_;
  const Dataset& train_;
  const Dataset* val_;
  const StopSignals& stop_;
  TrainerConfig config_;
  StepEngine engine_;
  SkipWatch skips_;
  double began_;  // seconds
  std::optional<Plateau> plateau_;
  std::deque<LoadedWindow> pending_;  // asked for and not yet told of
  int64_t per_epoch_ = 1, first_step_ = 0;
  int64_t step_ = 0;  // attempted
  int64_t saved_step_ = -1;
  SaveBudget budget_;
  std::optional<Checkpoint> held_;  // the best one, which the budget did not allow to write yet; the leader's
  bool evaluation_due_ = false;     // a stop cut it short: a resumed run makes up for it
  bool warned_empty_ = false, warned_not_finite_ = false;
  SamplerState next_;
  BestMetric best_;
  std::optional<Metrics> initial_;
};

}  // namespace amp
