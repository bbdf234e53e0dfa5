// Stepper: from a window's micro-batches to an optimizer step. On the CPU a step is over when submit() returns; on a
// device that updates by itself it is only asked for, and take() tells of it later, in order. Everything a checkpoint
// keeps of the optimizer and the loss scale is here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "precision/loss_scaler.h"
#include "trainer/losses.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/session.h"

namespace amp {

// What one attempted step did. A skipped step moved nothing: weights, moments, EMA, running statistics, schedule and
// the optimizer's t stand where they stood.
struct StepResult {
  int64_t step = 0;                // attempted, from 0
  int64_t applied_steps = 0;       // so far, this one included if it was
  double loss = 0, grad_norm = 0;  // the norm of the unscaled gradients, before clipping
  double lr = 0;                   // the schedule's, of the next applied step as long as steps are skipped
  StepScale scale;                 // applied or not, the scale used, the next one
  // the first with a non-finite gradient; empty when applied, and while a device runs on
  std::string first_bad_param;
  bool skipped() const { return !scale.applied; }
};

struct StepInput {
  int64_t step = 0;
  const Losses* losses = nullptr;
  std::vector<Tensors> batches;
  std::vector<int64_t> rows;     // of each: what random nodes count
  bool inject_overflow = false;  // for tests: the first gradient becomes infinite
};

class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void submit(const StepInput& window, const LossWindow& counted) = 0;
  virtual std::optional<StepResult> take(bool wait) = 0;  // the oldest step not yet taken

  // With no step under way:
  virtual int64_t applied_steps() const = 0;
  virtual ScaleState scale() const = 0;
  virtual std::map<std::string, HostTensor> state() const = 0;  // moments and EMA, as Optimizer::state
  // laid out like the parameters that train; empty without
  virtual HostTensor ema() const = 0;
  virtual void load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale) = 0;
};

std::unique_ptr<Stepper> make_stepper(Session& session, const OptimizerConfig& optimizer,
                                      const ScheduleConfig& schedule, const LossScaleConfig& scale,
                                      const Losses& losses, int64_t max_steps);

namespace detail {
std::unique_ptr<Stepper> make_device_stepper(Session& session, const OptimizerConfig& optimizer,
                                             const ScheduleConfig& schedule, const LossScaleConfig& scale,
                                             const Losses& losses, int64_t max_steps);
}

}  // namespace amp
