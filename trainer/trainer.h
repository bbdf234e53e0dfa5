// Trainer: the loop. A step is one accumulation window: micro-batches, finite check, unscale, clip, optimizer, EMA, scale.
// Steps count attempts; schedule, EMA, running statistics and the optimizer's t count applied ones.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "precision/loss_scaler.h"
#include "trainer/checkpoint.h"
#include "trainer/evaluate.h"
#include "trainer/metrics_log.h"
#include "trainer/optimizer.h"
#include "trainer/progress.h"
#include "trainer/schedule.h"
#include "trainer/session.h"
#include "trainer/skip_watch.h"
#include "trainer/stop.h"

namespace amp {

// What one attempted step did. A skipped step moved nothing: weights, moments, EMA, running statistics, schedule and the
// optimizer's t stand where they stood.
struct StepResult {
  int64_t step = 0;                  // attempted, from 0
  int64_t applied_steps = 0;         // so far, this one included if it was
  double loss = 0, grad_norm = 0;    // the norm of the unscaled gradients, before clipping
  double lr = 0;                     // the schedule's, of the next applied step as long as steps are skipped
  StepScale scale;                   // applied or not, the scale used, the next one
  std::string first_bad_param;       // the first with a non-finite gradient; empty when applied
  bool skipped() const { return !scale.applied; }
};

struct TrainerConfig {
  Goal goal;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;           // total_steps and warmup_steps resolved
  LossScaleConfig scale;
  SamplerOptions sampler;
  int64_t max_steps = 0;             // attempted steps
  int64_t eval_batch_size = 32;
  int64_t eval_steps = 0, save_steps = 0;  // 0: at the end of each epoch
  int64_t save_total_limit = 2;
  int64_t max_consecutive_skips = 50;                    // 0: never stop
  int64_t logging_steps = 50;
  int64_t early_stopping_patience = 0;
  std::string best_metric = "accuracy";
  std::string output_dir;
  std::map<std::string, std::string> hashes;             // what must be the same to resume
  std::function<bool(int64_t)> inject_overflow;          // by attempted step
  std::function<void(const StepResult&)> on_step;        // after each attempted step
  bool quiet = false;
  bool initial_eval = true;
};

struct TrainResult {
  bool stopped = false;              // by a signal: a checkpoint was written
  std::string stop_signal;
  int64_t steps = 0, applied = 0, skipped = 0;
  int64_t best_step = -1;
  std::optional<Metrics> initial, last;
  double seconds = 0;                // of training, evaluation left out
  int64_t samples = 0, tokens = 0;
};

class Trainer {
 public:
  // val may be null. The session, the data and the signals must outlive the trainer.
  Trainer(Session& session, const Dataset& train, const Dataset* val, const StopSignals& stop, TrainerConfig config);

  void resume(const Checkpoint& checkpoint);
  TrainResult run();
  TrainResult reached() const;                             // after resume(), without running

  Metrics evaluate();                                      // of the current weights on val
  const float* ema() const { return optimizer_.ema(); }
  const Optimizer<float>& optimizer() const { return optimizer_; }

 private:
  StepResult step(const LoadedWindow& window);
  bool evaluate_now(TrainResult& result, int64_t epoch);   // true: the best so far
  void save(const SamplerState& next);
  [[noreturn]] void diverged(const StepResult& last, const LoadedWindow& window);

  Session& session_;
  const Dataset& train_;
  const Dataset* val_;
  const StopSignals& stop_;
  TrainerConfig config_;
  Optimizer<float> optimizer_;
  Schedule schedule_;
  LossScaler scaler_;
  Progress progress_;
  int64_t step_ = 0;                  // attempted
  int64_t saved_step_ = -1;
  bool warned_empty_ = false;
  SamplerState next_;
  double best_ = 0;
  int64_t best_step_ = -1, evals_since_best_ = 0;
  std::optional<Metrics> initial_;
};

}  // namespace amp
