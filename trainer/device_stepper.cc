// The stepper of a device that updates by itself (backend/update.h): nothing here waits for it but what a checkpoint
// needs.
#include <deque>
#include <limits>

#include "backend/memory_phase.h"
#include "backend/update.h"
#include "base/error.h"
#include "trainer/stepper.h"
#include "trainer/update_spec.h"

namespace amp {

namespace {

class DeviceStepper final : public Stepper {
 public:
  DeviceStepper(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                const LossScaleConfig& scale, const Losses& losses, int64_t max_steps)
      : session_(session),
        scaler_(scale),
        update_(session.device().make_update(
            describe_update(session, optimizer, schedule, scale_rule(scale), losses, max_steps))) {
    update_->set_state(scaler_.state(), 0);
  }

  void submit(const StepInput& w, const LossWindow& counted) override {
    update_->begin(counted.seeds(1));
    const bool accumulate = w.batches.size() > 1;
    if (accumulate) session_.zero_grads();
    session_.state().step = w.step;
    session_.stage_statistics();
    int64_t row = 0;
    for (size_t m = 0; m < w.batches.size(); ++m) {
      session_.state().samples_before = row;
      row += w.rows[m];
      session_.launch_micro(*w.losses, w.batches[m], *update_, accumulate);
    }
    if (w.inject_overflow) session_.device().upload(session_.grads(), &kInfinity, sizeof kInfinity);
    update_->apply();
    asked_.push_back({w.step, counted});
  }

  std::optional<StepResult> take(bool wait) override {
    const std::optional<UpdateState> r = update_->take(wait);
    if (!r) return {};
    Asked asked = asked_.front();
    asked_.pop_front();
    StepResult s;
    s.step = asked.step;
    asked.loss.add(std::vector<double>(r->terms, r->terms + asked.loss.seeds(1).size()));
    s.loss = asked.loss.loss();
    s.grad_norm = r->norm;
    s.lr = r->lr;
    s.applied_steps = r->applied;
    s.scale = told(scaler_.config(), r->used_scale, r->scale, r->found_inf != 0);
    return s;
  }

  int64_t applied_steps() const override { return update_->state().applied; }
  ScaleState scale() const override { return update_->state().scale; }
  std::map<std::string, HostTensor> state() const override {
    std::map<std::string, HostTensor> out;
    for (const auto& [name, which] : kMoments) {
      const auto t = update_->moment(which);
      if (!t) continue;
      const HostTensor span = session_.device().read(*t);
      std::map<std::string, HostTensor> views;
      add_views(session_.layout(), name, static_cast<const float*>(span.data()), views);
      for (const auto& [key, v] : views)
        out[key] = HostTensor::of<float>(v.dims(), std::vector<float>(v.as<float>(), v.as<float>() + v.numel()));
    }
    return out;
  }
  HostTensor ema() const override {
    const auto t = update_->moment(DeviceUpdate::Moment::ema);
    return t ? session_.device().read(*t) : HostTensor();
  }
  void load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale) override {
    scaler_.restore(scale);
    for (const auto& [name, which] : kMoments) {
      const auto t = update_->moment(which);
      if (!t) continue;
      HostTensor span = session_.device().read(*t);
      copy_views(session_.layout(), name, state, static_cast<float*>(span.mutable_data()));
      session_.device().upload(t->data, span.data(), span.bytes());
    }
    update_->set_state(scaler_.state(), applied_steps);
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr std::pair<const char*, DeviceUpdate::Moment> kMoments[] = {
      {"m", DeviceUpdate::Moment::m}, {"v", DeviceUpdate::Moment::v}, {"ema", DeviceUpdate::Moment::ema}};
  struct Asked {
    int64_t step;
    LossWindow loss;
  };

  Session& session_;
  LossScaler scaler_;  // for its rules about what may be restored; the state is the device's
  std::unique_ptr<DeviceUpdate> update_;
  std::deque<Asked> asked_;
};

}  // namespace

std::unique_ptr<Stepper> detail::make_device_stepper(Session& session, const OptimizerConfig& optimizer,
                                                     const ScheduleConfig& schedule, const LossScaleConfig& scale,
                                                     const Losses& losses, int64_t max_steps) {
  return in_phase("the optimizer's moments", [&] {
    return std::make_unique<DeviceStepper>(session, optimizer, schedule, scale, losses, max_steps);
  });
}

}  // namespace amp
