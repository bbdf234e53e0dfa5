#include "trainer/step_engine.h"

#include <limits>

#include "backend/memory_phase.h"
#include "base/error.h"
#include "trainer/flat_views.h"
#include "trainer/launch_window.h"

namespace amp {

namespace {
constexpr float kOverflow = std::numeric_limits<float>::infinity();
constexpr std::pair<const char*, DeviceUpdate::Moment> kMoments[] = {{"m", DeviceUpdate::Moment::m},
                                                                     {"v", DeviceUpdate::Moment::v},
                                                                     {"u", DeviceUpdate::Moment::u},
                                                                     {"ema", DeviceUpdate::Moment::ema}};
}  // namespace

UpdateSpec describe_update(const Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps) {
  optimizer.validate();
  UpdateSpec spec;
  session.describe(spec);
  spec.optimizer = optimizer;
  spec.scale = scale;
  spec.lr = [lr = Schedule(schedule)](int64_t applied) { return lr.lr(applied); };
  spec.max_steps = max_steps;
  spec.terms = static_cast<int>(LossWindow(losses).seeds(1).size());
  return spec;
}

StepEngine::StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                       const LossScaleConfig& scale, const Losses& losses, int64_t max_steps)
    : session_(session), scaler_(scale), update_(in_phase("the optimizer's moments", [&] {
        return session.device().make_update(
            describe_update(session, optimizer, schedule, scale_rule(scale), losses, max_steps));
      })) {
  update_->set_state(scaler_.state(), 0);
}

void StepEngine::submit(const StepInput& w, const LossWindow& counted) {
  update_->begin(counted.seeds(1));
  session_.state().step = w.step;
  launch_window(session_, *w.losses, w.batches, w.rows, *update_);
  if (session_.copies().size() != told_copies_) update_->set_copies(session_.copies().copies());
  told_copies_ = session_.copies().size();
  if (w.inject_overflow) session_.device().upload(session_.grads(), &kOverflow, sizeof kOverflow);
  update_->apply();
  asked_.push_back({w.step, counted});
}

std::optional<StepResult> StepEngine::take(bool wait) {
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
  s.scale = make_scale_report(scaler_.config(), r->used_scale, r->scale, r->found_inf != 0);
  return s;
}

std::map<std::string, HostTensor> StepEngine::state() const {
  std::map<std::string, HostTensor> out;
  for (const auto& [name, which] : kMoments) {
    const auto t = update_->moment(which);
    if (!t) continue;
    const auto span = std::make_shared<HostTensor>(session_.device().on_host(*t));
    std::map<std::string, HostTensor> views;
    add_views(session_.layout(), name, span->as<float>(), views);
    for (const auto& [key, v] : views) out[key] = HostTensor(v.dtype(), v.dims(), span, v.data());
  }
  return out;
}

HostTensor StepEngine::ema() const {
  const auto t = update_->moment(DeviceUpdate::Moment::ema);
  return t ? session_.device().on_host(*t) : HostTensor();
}

void StepEngine::load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale) {
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

}  // namespace amp
