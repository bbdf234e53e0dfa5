#include "trainer/stepper.h"

#include <limits>
#include <utility>

namespace amp {

namespace {

class HostStepper final : public Stepper {
 public:
  HostStepper(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
              const LossScaleConfig& scale)
      : session_(session), optimizer_(optimizer, session.layout(), params()), schedule_(schedule), scaler_(scale) {}

  void submit(const StepInput& w, const LossWindow& counted) override {
    StepResult s;
    s.step = w.step;
    LossWindow loss = counted;
    const double scale = scaler_.scale();
    const std::vector<double> seeds = loss.seeds(scale);
    const bool accumulate = w.batches.size() > 1;
    if (accumulate) session_.zero_grads();
    session_.state().step = w.step;
    session_.stage_statistics();
    int64_t row = 0;
    for (size_t m = 0; m < w.batches.size(); ++m) {
      session_.state().samples_before = row;  // random nodes count samples, whatever the cut into micro-batches
      row += w.rows[m];
      loss.add(session_.train_micro(*w.losses, w.batches[m], seeds, accumulate));
    }
    s.loss = loss.loss();
    float* grads = static_cast<float*>(session_.grads());
    if (w.inject_overflow) {
      for (const Chunk& c : session_.layout().chunks()) {
        if (c.frozen) continue;
        grads[c.offset] = std::numeric_limits<float>::infinity();
        break;
      }
    }
    s.lr = schedule_.lr(optimizer_.steps());
    GradStats stats = optimizer_.inspect(grads, scale);
    stats.found_inf |= !session_.statistics_finite();  // an activation overflowed where no gradient shows it
    if (optimizer_.apply(params(), grads, scale, stats, s.lr)) {
      session_.commit_statistics();
      session_.params_changed();
    } else {
      s.first_bad_param = optimizer_.first_nonfinite(grads);
    }
    s.grad_norm = stats.norm;
    s.scale = scaler_.update(stats.found_inf);
    s.applied_steps = optimizer_.steps();
    done_ = s;
  }
  std::optional<StepResult> take(bool) override { return std::exchange(done_, std::nullopt); }

  int64_t applied_steps() const override { return optimizer_.steps(); }
  ScaleState scale() const override { return scaler_.state(); }
  std::map<std::string, HostTensor> state() const override { return optimizer_.state(); }
  HostTensor ema() const override {
    if (!optimizer_.ema()) return {};
    return HostTensor::of<float>(
        {session_.layout().trained_size()},
        std::vector<float>(optimizer_.ema(), optimizer_.ema() + session_.layout().trained_size()));
  }
  void load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale) override {
    optimizer_.load_state(state, applied_steps);
    scaler_.restore(scale);
  }

 private:
  float* params() const { return static_cast<float*>(session_.params()); }

  Session& session_;
  Optimizer<float> optimizer_;
  Schedule schedule_;
  LossScaler scaler_;
  std::optional<StepResult> done_;
};

}  // namespace

std::unique_ptr<Stepper> make_stepper(Session& session, const OptimizerConfig& optimizer,
                                      const ScheduleConfig& schedule, const LossScaleConfig& scale,
                                      const Losses& losses, int64_t max_steps) {
  if (session.device().kind() == DeviceKind::cpu)
    return std::make_unique<HostStepper>(session, optimizer, schedule, scale);
  return detail::make_device_stepper(session, optimizer, schedule, scale, losses, max_steps);
}

}  // namespace amp
