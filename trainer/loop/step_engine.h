// StepEngine: from a window's micro-batches to an optimizer step, by one protocol on every device (backend/update.h).
// On the CPU a step is over when submit() returns; a GPU is only asked for it, and take() tells of it later, in order.
// Everything a checkpoint keeps of the optimizer and the loss scale is here.
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

// What one attempted step did. A skipped step moved nothing: weights, moments, EMA, running statistics, schedule and
// the optimizer's t stand where they stood.
struct StepResult {
  int64_t step = 0;                // attempted, from 0
  int64_t applied_steps = 0;       // so far, this one included if it was
  double loss = 0, grad_norm = 0;  // the norm of the unscaled gradients, before clipping
  double lr = 0;                   // the schedule's, of the next applied step as long as steps are skipped
  GradientReducer::Cost sums;  // of gradients over the ranks, on this rank, which waited for them with nothing to do
  StepScale scale;             // applied or not, the scale used, the next one
  bool skipped() const { return !scale.applied; }
};

struct StepInput {
  int64_t step = 0;
  const Losses* losses = nullptr;
  std::vector<Tensors> batches;
  std::vector<int64_t> rows;     // of each: what random nodes count
  bool inject_overflow = false;  // for tests: the first gradient becomes infinite
  // Of one of several ranks:
  std::vector<int64_t> before =
      {};                 // rows of the window before each batch, on all ranks; empty: they follow each other
  double share = 1;       // of the window's rows that are this rank's
  int64_t all_rows = -1;  // of the window, on all ranks; -1: those of `rows`
  const LossWindow* own_items = nullptr;  // of local steps: this rank's, by which its losses are divided
  const Instrumentation* look = nullptr;  // of one who looks at how micro-batches run; not with a gradient cache
};

class StepEngine {
 public:
  struct Options {
    bool gradient_cache = false;  // losses across rows see a window's rows, not a micro-batch's
    // Ranks step by their own gradients until average_ranks() (local SGD; Stich 2019, arXiv:1805.09767).
    bool local = false;
    bool overlap_sums = true;  // on the CPU, gradients over the ranks with backward (trainer/comm/gradient_reducer.h)
    DType sent_gradients = DType::f32;  // what ranks exchange to sum them: fp32, or 16 bits (RankSum::sent)
  };

  // After session.prepare(), by all ranks together. max_steps: at most so many steps will be applied. Of several ranks
  // gradients, running statistics and losses are those of all, so that every replica makes the same step. What is not
  // finite on one rank is not finite in the sum: all skip together. The losses outlive the engine.
  StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
             const LossScaleConfig& scale, const Losses& losses, int64_t max_steps, Communicator& ranks,
             const Options& options);
  StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
             const LossScaleConfig& scale, const Losses& losses, int64_t max_steps, Communicator& ranks = one_rank())
      : StepEngine(session, optimizer, schedule, scale, losses, max_steps, ranks, Options()) {}
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;
  ~StepEngine();

  // Of a sharded optimizer, or of local steps, on all ranks: the one that leads has all moments afterwards, for state()
  // and average(), until release().
  void gather();
  void release();
  // Of local steps, by all ranks together: weights, their averages and running statistics become the mean over the
  // ranks; moments stay a rank's own.
  void average_ranks();
  // counted: items of all ranks.
  void submit(const StepInput& window, const LossWindow& counted);
  std::optional<StepResult> take(bool wait);  // the oldest step not yet taken

  // With no step under way:
  int64_t applied_steps() const { return update_->state().applied; }
  ScaleState scale() const { return update_->state().scale; }
  void set_lr_scale(double scale) { update_->set_lr_scale(scale); }
  // Moments, averages and the estimate of curvature per trained parameter as "m/NAME", "v/NAME", "ema/NAME"; on the CPU
  // views that the next step overwrites, as average(). The weights that train, too, where they are not those evaluated.
  std::map<std::string, HostTensor> state() const;
  HostTensor average(int k) const;  // laid out like the parameters that train; empty without
  // All parameters as they are evaluated and exported, of a rule that trains others; else empty.
  HostTensor evaluated() const;
  std::vector<double> facts() const;  // of a rule that remembers
  // Other names, types or shapes than state() has: exit 6 E_CKPT_MISMATCH. Other entries of the map are ignored.
  void load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale,
            const std::vector<double>& facts);

 private:
  struct Asked {
    int64_t step;
    LossWindow loss;
  };

  void launch(const StepInput& window, const std::vector<int64_t>& before, LossTerms& terms);
  void second_pass(const StepInput& window, const std::vector<int64_t>& before);
  void gather_local();
  std::string own_name(const std::string& moment, const std::map<std::string, HostTensor>& state) const;
  bool sharded() const { return optimizer_.sharded() && ranks_.size() > 1; }
  Communicator::Shard own() const { return ranks_.shard(session_.layout().trained_size(), ranks_.rank()); }
  // Of all elements; empty when it is not kept, or, of a sharded optimizer, was not gathered.
  HostTensor on_host(DeviceUpdate::Moment which) const;

  Session& session_;
  Communicator& ranks_;
  OptimizerConfig optimizer_;
  const bool overlaps_, local_;
  std::unique_ptr<GradientReducer> early_;  // of several ranks on the CPU
  std::unique_ptr<DeviceRanks> summing_;    // of several ranks; the update's
  std::optional<Curvature> curvature_;      // before the update, which is told of its arena
  std::optional<GradientCache> cache_;
  LossScaler scaler_;  // for its rules about what may be restored; the state is the device's
  std::unique_ptr<DeviceUpdate> update_;
  std::map<DeviceUpdate::Moment, HostTensor> gathered_;  // of all ranks
  std::map<std::string, HostTensor> of_others_;          // of local steps: the other ranks' moments, by name
  std::deque<Asked> asked_;
  size_t told_copies_ = 0;  // of 16 bits, those that the update knows: a new bucket's Program may have added some
};

// What a device is told of a run.
UpdateSpec describe_update(const Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps);

}  // namespace amp
