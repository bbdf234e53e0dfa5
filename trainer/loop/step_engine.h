// StepEngine: runs the micro-batches of an accumulation step and the optimizer step, by one protocol on all devices
// (backend/update.h). On the CPU a step has finished when submit() returns. On a GPU submit() only launches it, and
// take() returns results later, in order. The engine owns the state of optimizer and loss scale that checkpoints store.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/update.h"
#include "precision/loss_scaler.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/compile/session.h"
#include "trainer/loop/curvature.h"
#include "trainer/loop/gradient_cache.h"
#include "trainer/loop/schedule.h"
#include "trainer/losses/losses.h"

namespace amp {

// Result of one attempted step. A skipped step leaves weights, moments, EMA, running statistics, schedule and the
// optimizer's t unchanged.
struct StepResult {
  int64_t step = 0;                // index of the attempt, from 0
  int64_t applied_steps = 0;       // number of applied steps so far, including this one
  double loss = 0, grad_norm = 0;  // the norm of the unscaled gradients, before clipping
  double lr = 0;                   // learning rate; of a skipped step, the rate that the next applied step will use
  GradientReducer::Cost sums;      // times of the gradient all-reduce on this rank
  StepScale scale;                 // whether the step was applied, the scale used, and the next one
  bool skipped() const { return !scale.applied; }
};

struct StepInput {
  int64_t step = 0;
  const Losses* losses = nullptr;
  std::vector<Tensors> batches;
  std::vector<int64_t> rows;     // number of rows of each batch; random nodes are indexed by row
  bool inject_overflow = false;  // for tests: the first gradient becomes infinite
  // With several ranks:
  // indexed by batch: rows in the step's earlier batches, counted over all ranks; empty: the sums of `rows`
  std::vector<int64_t> before = {};
  double share = 1;                            // this rank's share of the step's rows
  int64_t all_rows = -1;                       // number of rows of the step on all ranks; -1: the sum of `rows`
  const LossAccumulator* own_items = nullptr;  // local steps: this rank's item counts, by which its losses are divided
  const Instrumentation* look = nullptr;  // optional hooks for each micro-batch; not supported with a gradient cache
};

class StepEngine {
 public:
  struct Options {
    bool gradient_cache = false;  // losses across rows use all rows of the accumulation step
    // Ranks apply only their own gradients until average_ranks() (local SGD; Stich 2019, arXiv:1805.09767).
    bool local = false;
    bool overlap_sums = true;  // overlap gradient all-reduce and backward, CPU only (trainer/comm/gradient_reducer.h)
    DType grad_reduce_dtype = DType::f32;  // element type of the gradient all-reduce: fp32 or 16 bits (RankSum::sent)
  };

  // Requires session.prepare(); all ranks construct it together. max_steps: upper bound of applied steps. With several
  // ranks, gradients, running statistics and losses are reduced over all ranks, so that every replica applies the same
  // step. A non-finite value on one rank makes the sum non-finite, so all ranks skip together. losses must outlive the
  // engine.
  StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
             const LossScaleConfig& scale, const Losses& losses, int64_t max_steps, Communicator& ranks,
             const Options& options);
  StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
             const LossScaleConfig& scale, const Losses& losses, int64_t max_steps, Communicator& ranks = one_rank())
      : StepEngine(session, optimizer, schedule, scale, losses, max_steps, ranks, Options()) {}
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;
  ~StepEngine();

  // Collective, for a sharded optimizer and for local steps: copies all moments to the root rank, for state() and
  // average(). release() frees these copies.
  void gather();
  void release();
  // Collective, for local steps: replaces weights, their averages and running statistics by the mean over the ranks.
  // Moments stay local.
  void average_ranks();
  // Launches a step. counted: item counts of all ranks.
  void submit(const StepInput& window, const LossAccumulator& counted);
  // Returns the oldest step that was not yet returned. Empty if no step is pending, or if it has not finished and
  // `wait` is false.
  std::optional<StepResult> take(bool wait);

  // All member functions from here to load() require that no step is pending.
  int64_t applied_steps() const { return update_->state().applied; }
  ScaleState scale() const { return update_->state().scale; }
  void set_lr_scale(double scale) { update_->set_lr_scale(scale); }
  // Replaces the loss scale of the next step and keeps its counters (GradScaler.update(new_scale)). Throws E_LOSS_SCALE
  // (Exit::usage) if the scale is not dynamic, or if `scale` is outside of the scaler's limits.
  void set_loss_scale(float scale);
  // Returns moments, averages and the curvature estimate per trained parameter as "m/NAME", "v/NAME", "ema/NAME". Also
  // returns the trained weights, if the optimizer evaluates other weights (schedule-free). On the CPU the results of
  // state() and average() are views that the next step overwrites.
  std::map<std::string, HostTensor> state() const;
  // Returns moving average k, with the layout of the trainable parameters; empty if there is none.
  HostTensor average(int k) const;
  // Returns all parameters as evaluated and exported, if the optimizer trains other weights (schedule-free); else
  // empty.
  HostTensor evaluated() const;
  std::vector<double> step_scalars() const;  // the optimizer's scalar state; empty if it has none
  // Restores the entries that state() returned and ignores all others. Throws E_CKPT_MISMATCH (exit 6) if a name is
  // missing or has another type or shape.
  void load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale,
            const std::vector<double>& step_scalars);

 private:
  struct Asked {
    int64_t step;
    LossAccumulator loss;
  };

  void launch(const StepInput& window, const std::vector<int64_t>& before, LossTerms& terms);
  void second_pass(const StepInput& window, const std::vector<int64_t>& before);
  void gather_local();
  std::string own_name(const std::string& moment, const std::map<std::string, HostTensor>& state) const;
  bool sharded() const { return optimizer_.sharded() && ranks_.size() > 1; }
  Communicator::Shard own() const { return ranks_.shard(session_.layout().trained_size(), ranks_.rank()); }
  // Returns all elements of a moment. Empty if the optimizer has no such moment, or if a sharded moment was not
  // gathered.
  HostTensor on_host(DeviceUpdate::Moment which) const;

  Session& session_;
  Communicator& ranks_;
  OptimizerConfig optimizer_;
  const bool overlaps_, local_;
  std::unique_ptr<GradientReducer> early_;       // several ranks on the CPU only
  std::unique_ptr<DeviceCommunicator> summing_;  // several ranks only; used by the update
  std::optional<Curvature> curvature_;           // declared before update_, which uses its arena
  std::optional<GradientCache> cache_;
  LossScaler scaler_;  // validates restored states; the device holds the current state
  std::unique_ptr<DeviceUpdate> update_;
  std::map<DeviceUpdate::Moment, HostTensor> gathered_;  // copies of the moments of all ranks, from gather()
  std::map<std::string, HostTensor> of_others_;          // local steps: moments of the other ranks, by name
  std::deque<Asked> asked_;
  size_t known_copies_ = 0;  // number of 16-bit copies passed to update_; the Program of a new bucket may add some
};

// Returns the description of a run's update that a device needs.
UpdateSpec describe_update(const Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps);

}  // namespace amp
