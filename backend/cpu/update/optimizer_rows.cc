// The update of tables with zero-gradient rows (backend/cpu/update/zero_gradient_rows.h).
#include "backend/cpu/update/optimizer.h"

namespace amp {

// Determines the zero-gradient rows (zero_gradient_rows.h) from the moments, after other code has written the moments.
template <class T>
void Optimizer<T>::find_zero_rows() {
  const T* const moments[] = {span_of(DeviceUpdate::Moment::m), span_of(DeviceUpdate::Moment::v),
                              span_of(DeviceUpdate::Moment::u)};
  const auto count = static_cast<int64_t>(shards_.size());
#pragma omp parallel for schedule(static) if (in_parallel_)
  for (int64_t i = 0; i < count; ++i) {
    const Shard s = own_part(shards_[static_cast<size_t>(i)]);
    for (const T* const m : moments) {
      if (m && s.count > 0 && zero_rows_->watches(s.span))
        zero_rows_->inspect_moments(s.span, s.begin, s.count, m - own_.begin);
    }
  }
  moments_known_ = true;
}

template <class T>
void Optimizer<T>::touch_moments(int64_t begin, int64_t end) {
  for (const auto which : {DeviceUpdate::Moment::m, DeviceUpdate::Moment::v, DeviceUpdate::Moment::u}) {
    if (T* const span = span_of(which)) std::fill(span + begin - own_.begin, span + end - own_.begin, T(0));
  }
}

// Updates a part of a shard: zero-gradient rows and other rows separately.
template <class T>
void Optimizer<T>::move_part(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                             const kernel::GradTransform<T>& transform) {
  const OptimizerConfig& c = config_;
  const auto rule = kernel::zero_gradient_effect(c.rule, c.settings, step, transform);
  if (rule == kernel::ZeroGradientEffect::moments) zero_rows_->mark_nonzero(s.span, s.begin, s.count);
  zero_rows_->each_run(s.span, s.begin, s.count, [&](int64_t begin, int64_t n, bool zero) {
    const Shard part{s.span, begin, n};
    if (!zero) {
      zero_rows_->each_new_row(s.span, begin, n, [&](int64_t from, int64_t to) { touch_moments(from, to); });
      return move_shard(part, step, params, grads, curvature, transform);
    }
    const kernel::ShardSpans<T> spans = spans_of(part, params, grads, curvature);
    if (rule == kernel::ZeroGradientEffect::weights)
      kernel::update_shard_zero_grad(c.rule, c.settings, step, spans, transform);
    else if (spans.ema)
      kernel::average(spans.ema, spans.p, spans.n, transform.keep);
    follow(begin, n, params, spans.ema ? 1 : 0);
  });
}

template void Optimizer<float>::find_zero_rows();
template void Optimizer<double>::find_zero_rows();
template void Optimizer<float>::touch_moments(int64_t, int64_t);
template void Optimizer<double>::touch_moments(int64_t, int64_t);
template void Optimizer<float>::move_part(const Shard&, const RuleStep&, float*, const float*, const float*,
                                          const kernel::GradTransform<float>&);
template void Optimizer<double>::move_part(const Shard&, const RuleStep&, double*, const double*, const double*,
                                           const kernel::GradTransform<double>&);

}  // namespace amp
