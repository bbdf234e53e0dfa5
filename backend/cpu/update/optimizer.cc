// The optimizer step on the CPU (optimizer.h): inspection of gradients, transforms (clipping, noise, SAM), and the
// dispatch of shards to the loops of update_loops.h, or of tensors to tensor_update.h.
// Zero-gradient rows of tables are handled in optimizer_rows.cc.

#include "backend/cpu/update/optimizer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/update/tensor_worker.h"
#include "backend/gradient_noise.h"
#include "backend/update_rules.h"
#include "base/huge_pages.h"

namespace amp {

// Elements per shard; this range of five arrays fits into a second-level cache.
static constexpr int64_t kShard = 16384;

template <class T>
Optimizer<T>::Optimizer(const OptimizerConfig& config, std::vector<UpdateSpan> spans, int64_t elements, const T* params,
                        std::optional<ElementRange> own)
    : config_(config), spans_(std::move(spans)), elements_(elements), own_(own.value_or(ElementRange{0, elements})) {
  config_.validate();
  int64_t total = 0;
  for (size_t i = 0; i < spans_.size(); ++i) {
    const UpdateSpan& s = spans_[i];
    for (int64_t at = 0; at < s.count; at += kShard)
      shards_.push_back({i, s.begin + at, std::min(kShard, s.count - at)});
    total += s.count;
  }
  in_parallel_ = total > 4 * kShard;
  const Dims dims{own_.count};
  const int wide = config_.quantized() ? 0 : config_.moments();
  if (config_.quantized()) {
    check((std::is_same_v<T, float>), "8-bit moments require fp32 weights");
    for (int i = 0; i < config_.moments(); ++i) quantized_.emplace_back(spans_, i == 0);
  }
  if (config_.tensor_wise()) tensors_.emplace(config_, spans_);
  if (!config_.tensor_wise() && !config_.quantized() && !config_.needs_hessian_diagonal() &&
      !config_.transforms_gradients(spans_) && !rule_needs_norms(config_.rule, config_.settings))
    zero_rows_.emplace(spans_);
  for (const UpdateSpan& s : spans_) clip_groups_ = std::max(clip_groups_, s.clip_group + 1);
  if (wide > 0) m_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  if (wide > 1) v_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  if (wide > 2) u_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  // Tables do not use huge pages, so that the untouched moments of zero-gradient rows take no memory.
  for (size_t i = 0; i < spans_.size(); ++i) {
    const Shard own = own_part({i, spans_[i].begin, spans_[i].count});
    for (HostTensor* const t : {&m_, &v_, &u_}) {
      if (*t && own.count > 0 && !(zero_rows_ && zero_rows_->watches(i)))
        prefer_huge_pages(t->as_mutable<T>() + own.begin - own_.begin, own.count * static_cast<int64_t>(sizeof(T)));
    }
  }
  const auto like_params = [&] {
    HostTensor copy = HostTensor::zeros(DTypeOf<T>::value, dims);
    for (const Shard& all : shards_) {
      const Shard s = own_part(all);
      std::copy_n(params + s.begin, s.count, copy.as_mutable<T>() + (s.begin - own_.begin));
    }
    return copy;
  };
  for (int k = 0; k < config_.averages(); ++k) averages_.push_back(like_params());
  if (config_.lookahead > 0) slow_ = like_params();
  if (config_.sam_rho > 0) kept_ = HostTensor::zeros(DTypeOf<T>::value, {elements});
}

template <class T>
typename Optimizer<T>::Shard Optimizer<T>::own_part(const Shard& s) const {
  const int64_t begin = std::clamp(s.begin, own_.begin, own_.begin + own_.count);
  const int64_t end = std::clamp(s.begin + s.count, own_.begin, own_.begin + own_.count);
  return {s.span, begin, end - begin};
}

template <class T>
T* Optimizer<T>::moment(DeviceUpdate::Moment which) {
  moments_known_ = moments_fresh_ = false;
  return span_of(which);
}

template <class T>
T* Optimizer<T>::span_of(DeviceUpdate::Moment which) {
  using Moment = DeviceUpdate::Moment;
  if (which >= Moment::ema) {
    const auto k = static_cast<size_t>(which) - static_cast<size_t>(Moment::ema);
    return k < averages_.size() ? averages_[k].as_mutable<T>() : nullptr;
  }
  HostTensor& t = which == Moment::m ? m_ : which == Moment::v ? v_ : which == Moment::u ? u_ : slow_;
  return t ? t.as_mutable<T>() : nullptr;
}

// Returns float(1 / double(scale)), as in torch.amp.GradScaler.
template <class T>
T Optimizer<T>::inverse(double scale) const {
  return static_cast<T>(1.0 / scale);
}

template <class T>
GradStats Optimizer<T>::inspect(const T* grads, double scale, const T* curvature) const {
  GradStats out = statistics_of(grads, scale, config_.clip_mode == ClipMode::norm_inf, true);
  if (curvature) out.found_inf |= statistics_of(curvature, 1, false, false).found_inf;
  return out;
}

template <class T>
GradStats Optimizer<T>::statistics_of(const T* grads, double scale, bool inf_norm, bool of_step) const {
  const auto count = static_cast<int64_t>(shards_.size());
  std::vector<kernel::ShardStats> parts(shards_.size());
#pragma omp parallel for schedule(static) if (in_parallel_)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    if (spans_[s.span].from_step > steps_) continue;
    parts[static_cast<size_t>(i)] = of_step && zero_rows_ && zero_rows_->watches(s.span)
                                        ? zero_rows_->inspect(s.span, s.begin, s.count, grads)
                                        : kernel::inspect(grads + s.begin, s.count);
  }
  GradStats out;
  double sum = 0, most = 0;
  std::vector<double> sums(static_cast<size_t>(clip_groups_)), tops(sums.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const kernel::ShardStats& p = parts[i];
    const auto group = static_cast<size_t>(spans_[shards_[i].span].clip_group);
    out.found_inf |= p.found_inf;
    sum += p.sum_squares;
    most = std::max(most, p.max_abs);
    sums[group] += p.sum_squares;
    tops[group] = std::max(tops[group], p.max_abs);
  }
  out.found_inf |= !std::isfinite(inverse(scale));  // division by a scale that underflowed to 0 is not possible
  const double scaled = inf_norm ? most : std::sqrt(sum);
  out.norm = out.found_inf ? std::sqrt(sum) : scaled * static_cast<double>(inverse(scale));
  for (size_t g = 0; clip_groups_ > 1 && g < sums.size(); ++g)
    out.group_norms.push_back((inf_norm ? tops[g] : std::sqrt(sums[g])) * static_cast<double>(inverse(scale)));
  return out;
}

template <class T>
kernel::ShardSpans<T> Optimizer<T>::spans_of(const Shard& s, T* params, const T* grads, const T* curvature) {
  const auto of = [&](DeviceUpdate::Moment which) {
    T* const span = span_of(which);
    return span ? span + (s.begin - own_.begin) : nullptr;
  };
  using Moment = DeviceUpdate::Moment;
  return {params + s.begin,
          grads + s.begin,
          of(Moment::m),
          of(Moment::v),
          of(Moment::u),
          lookahead_due() ? nullptr : of(Moment::ema),  // on a Lookahead step, follow() updates the averages
          curvature ? curvature + s.begin : nullptr,
          s.count};
}

template <class T>
RuleStep Optimizer<T>::step_of(size_t index, const RuleStep& step, double lr) const {
  const OptimizerConfig& c = config_;
  const UpdateSpan& span = spans_[index];
  RuleStep here = step;
  if (span.from_step > 0) {
    with_element(c.rule, c.settings, [&]<class Element>(Element) {
      begin_rule_step<Element>(c.settings, steps_ - span.from_step, lr, here.scalars);
    });
  }
  here.lr = lr * span.lr_factor;
  here.decay = span.weight_decay.value_or(config_.weight_decay);
  return here;
}

template <class T>
std::vector<NormTerms<double>> Optimizer<T>::norms_of(T* params, const T* grads, double scale, const GradStats& stats,
                                                      const RuleStep& step, double lr) {
  const OptimizerConfig& c = config_;
  if (!rule_needs_norms(c.rule, c.settings)) return {};
  std::vector<NormTerms<double>> parts(shards_.size()), norms(spans_.size(), {0, 0});
  const auto count = static_cast<int64_t>(shards_.size());
#pragma omp parallel for schedule(static) if (in_parallel_)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    parts[static_cast<size_t>(i)] =
        kernel::sum_norm_terms(c.rule, c.settings, step_of(s.span, step, lr), spans_of(s, params, grads, nullptr),
                               transform_of(spans_[s.span], stats, scale));
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    norms[shards_[i].span].first += parts[i].first;
    norms[shards_[i].span].second += parts[i].second;
  }
  for (NormTerms<double>& n : norms) n = {std::sqrt(n.first), std::sqrt(n.second)};
  return norms;
}

template <class T>
void Optimizer<T>::move_shard(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                              const kernel::GradTransform<T>& transform) {
  const OptimizerConfig& c = config_;
  kernel::ShardSpans<T> spans = spans_of(s, params, grads, curvature);
  if constexpr (std::is_same_v<T, float>) {
    const int64_t at = s.begin - spans_[s.span].begin;
    thread_local std::vector<float> buffers[2];
    for (size_t i = 0; i < quantized_.size(); ++i) {
      buffers[i].resize(static_cast<size_t>(kShard));
      (i == 0 ? spans.m : spans.v) = buffers[i].data();
      quantized_[i].load(s.span, at, s.count, buffers[i].data());
    }
    kernel::update_shard(c.rule, c.settings, step, spans, transform);
    for (size_t i = 0; i < quantized_.size(); ++i) quantized_[i].store(s.span, at, s.count, buffers[i].data());
  } else {
    kernel::update_shard(c.rule, c.settings, step, spans, transform);
  }
  follow(s.begin, s.count, params, spans.ema ? 1 : 0);
}

template <class T>
void Optimizer<T>::follow(int64_t begin, int64_t count, T* params, size_t first) {
  T* const p = params + begin;
  const int64_t at = begin - own_.begin;
  if (lookahead_due())
    kernel::look_ahead(p, slow_.as_mutable<T>() + at, count, static_cast<T>(config_.lookahead_alpha));
  for (size_t k = first; k < averages_.size(); ++k) {
    const double keep = config_.average_rule(static_cast<int>(k)).keeps(steps_);
    kernel::average(averages_[k].as_mutable<T>() + at, p, count, static_cast<T>(keep));
  }
}

template <class T>
bool Optimizer<T>::perturb(T* params, const T* grads, double scale) {
  const GradStats stats = statistics_of(grads, scale, false, false);
  std::copy_n(params, elements_, kept_.as_mutable<T>());
  if (stats.found_inf) return false;
  const T inv = inverse(scale), ascent = static_cast<T>(sam_ascent(config_.sam_rho, stats.norm));
  for (const Shard& s : shards_) {
    if (spans_[s.span].from_step > steps_) continue;
    for (int64_t i = s.begin; i < s.begin + s.count; ++i) params[i] += grads[i] * inv * ascent;
  }
  return true;
}

template <class T>
void Optimizer<T>::transform_gradients(const T* params, T* grads, double scale) const {
  const double inv = static_cast<double>(inverse(scale));
  for (const UpdateSpan& s : spans_) {
    const double bound = config_.clip_mode == ClipMode::adaptive ? config_.clip_bound(s) : 0;
    const int64_t unit = s.unit > 0 ? s.unit : s.count, units = s.count / unit;
#pragma omp parallel for schedule(static) if (s.count > 4 * kShard)
    for (int64_t u = 0; u < units; ++u) {
      const T* const p = params + s.begin + u * unit;
      T* const g = grads + s.begin + u * unit;
      if (config_.centralize && s.matrix) {
        double sum = 0;
        for (int64_t i = 0; i < unit; ++i) sum += static_cast<double>(g[i]);
        const T mean = static_cast<T>(sum / static_cast<double>(unit));
        for (int64_t i = 0; i < unit; ++i) g[i] -= mean;
      }
      if (bound == 0) continue;
      double weights = 0, gradient = 0;
      for (int64_t i = 0; i < unit; ++i) {
        weights += static_cast<double>(p[i]) * static_cast<double>(p[i]);
        gradient += static_cast<double>(g[i]) * static_cast<double>(g[i]);
      }
      const T c = static_cast<T>(adaptive_clip(std::sqrt(weights), std::sqrt(gradient) * inv, bound));
      for (int64_t i = 0; i < unit; ++i) g[i] *= c;
    }
  }
}

template <class T>
void Optimizer<T>::add_noise(T* grads, double scale) const {
  if (config_.gradient_noise == 0) return;
  const double deviation = noise_deviation(config_.gradient_noise, steps_) * scale;
  for (const Shard& s : shards_) {
    if (spans_[s.span].from_step > steps_) continue;
    for (int64_t i = s.begin; i < s.begin + s.count; ++i)
      grads[i] += static_cast<T>(gradient_noise(config_.noise_seed, steps_, i, deviation));
  }
}

template <class T>
void Optimizer<T>::set_momentum(double momentum) {
  config_.settings.*cycled_key(config_.rule) = momentum;
}

template <class T>
std::vector<std::pair<std::string, HostTensor*>> Optimizer<T>::own_state() {
  if (tensors_) return tensors_->state();
  std::vector<std::pair<std::string, HostTensor*>> out;
  for (size_t i = 0; i < quantized_.size(); ++i) {
    const auto names = QuantizedLayout::names(static_cast<int>(i));
    for (size_t k = 0; k < 3; ++k) out.emplace_back(names[k], quantized_[i].parts()[k]);
  }
  return out;
}

template <class T>
void Optimizer<T>::restore(T* params) const {
  std::copy_n(kept_.as<T>(), elements_, params);
}

template <class T>
void Optimizer<T>::average_curvature(T* curvature) const {
  if (config_.settings.average_kernels == 0) return;
  for (const UpdateSpan& s : spans_) {
    for (int64_t i = 0; s.kernel > 1 && i < s.count; i += s.kernel) average_kernel(curvature + s.begin + i, s.kernel);
  }
}

template <class T>
bool Optimizer<T>::apply(T* params, const T* grads, double scale, const GradStats& stats, double lr,
                         const T* curvature) {
  if (stats.found_inf) return false;
  ++steps_;
  if (tensors_)
    move_tensors(params, grads, scale, stats, lr);
  else
    move_shards(params, grads, scale, stats, lr, curvature);
  return true;
}

template <class T>
kernel::GradTransform<T> Optimizer<T>::transform_of(const UpdateSpan& s, const GradStats& stats, double scale) const {
  kernel::GradTransform<T> transform{inverse(scale), T(1), static_cast<T>(config_.element_limit(s)),
                                     averages_.empty() ? T(0) : static_cast<T>(config_.average_rule(0).keeps(steps_))};
  const double bound = config_.clip_bound(s);
  if (bound == 0) return transform;
  if (config_.clip_mode == ClipMode::norm2 || config_.clip_mode == ClipMode::norm_inf) {
    const double norm = clip_groups_ > 1 ? stats.group_norms.at(static_cast<size_t>(s.clip_group)) : stats.norm;
    transform.clip = clip_coefficient<T>(norm, bound);
  }
  return transform;
}

template <class T>
void Optimizer<T>::move_shards(T* params, const T* grads, double scale, const GradStats& stats, double lr,
                               const T* curvature) {
  const OptimizerConfig& c = config_;
  RuleStep step;
  with_element(c.rule, c.settings,
               [&]<class Element>(Element) { begin_rule_step<Element>(c.settings, steps_, lr, step_scalars_); });
  std::copy(std::begin(step_scalars_), std::end(step_scalars_), std::begin(step.scalars));
  const std::vector<NormTerms<double>> norms = norms_of(params, grads, scale, stats, step, lr);
  if (zero_rows_ && !moments_known_) find_zero_rows();
  const auto count = static_cast<int64_t>(shards_.size());
// Shards with zero-gradient rows take less time, so shards are assigned dynamically.
#pragma omp parallel for schedule(dynamic, 4) if (in_parallel_)
  for (int64_t i = 0; i < count; ++i) {
    const Shard s = own_part(shards_[static_cast<size_t>(i)]);
    if (s.count == 0 || spans_[s.span].from_step >= steps_) continue;
    RuleStep here = step_of(s.span, step, lr);
    if (!norms.empty()) {
      here.norms[0] = norms[s.span].first;
      here.norms[1] = norms[s.span].second;
    }
    const kernel::GradTransform<T> transform = transform_of(spans_[s.span], stats, scale);
    if (zero_rows_ && zero_rows_->watches(s.span)) {
      move_part(s, here, params, grads, curvature, transform);
      continue;
    }
    if (moments_fresh_) touch_moments(s.begin, s.begin + s.count);
    move_shard(s, here, params, grads, curvature, transform);
  }
  moments_fresh_ = false;
}

// Updates one tensor at a time; each tensor is divided among the threads.
template <class T>
void Optimizer<T>::move_tensors(T* params, const T* grads, double scale, const GradStats& stats, double lr) {
  for (size_t i = 0; i < spans_.size(); ++i) {
    const UpdateSpan& s = spans_[i];
    if (s.from_step >= steps_) continue;
    const RuleStep step = step_of(i, {}, lr);
    tensors_->step(i, {step.lr, step.decay, steps_ - s.from_step}, params + s.begin, grads + s.begin,
                   transform_of(s, stats, scale));
    cpu::for_units(s.count, 1, [&](int64_t begin, int64_t end) { follow(s.begin + begin, end - begin, params, 0); });
  }
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace amp
