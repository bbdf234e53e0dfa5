#include "trainer/update_spec.h"

namespace amp {

UpdateSpec describe_update(const Session& session, const OptimizerConfig& c, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps) {
  using Method = UpdateSpec::Method;
  using Clip = UpdateSpec::Clip;
  c.validate();
  UpdateSpec spec;
  session.describe(spec);
  spec.method = c.kind == OptimizerKind::sgd    ? Method::sgd
                : c.kind == OptimizerKind::adam ? Method::adam
                                                : Method::adamw;
  spec.beta1 = c.beta1;
  spec.beta2 = c.beta2;
  spec.eps = c.eps;
  spec.momentum = c.momentum;
  spec.nesterov = c.nesterov;
  spec.weight_decay = c.weight_decay;
  spec.max_grad_norm = c.max_grad_norm;
  spec.report_inf_norm = c.clip_mode == ClipMode::norm_inf;
  if (c.max_grad_norm > 0) {
    spec.clip = c.clip_mode == ClipMode::norm2      ? Clip::norm2
                : c.clip_mode == ClipMode::norm_inf ? Clip::norm_inf
                                                    : Clip::value;
  }
  spec.ema_decay = c.ema_decay;
  spec.scale = scale;
  const Schedule lr(schedule);
  for (int64_t t = 0; t <= max_steps; ++t) spec.lr.push_back(lr.lr(t));
  spec.terms = static_cast<int>(LossWindow(losses).seeds(1).size());
  return spec;
}

}  // namespace amp
