#include "backend/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "backend/update_rules.h"
#include "base/philox.h"

namespace amp {

static constexpr int64_t kShard = 16384;  // elements: all five spans of a shard fit in a second-level cache

template <class T>
Optimizer<T>::Optimizer(const OptimizerConfig& config, std::vector<UpdateSpan> spans, int64_t elements, const T* params,
                        std::optional<ElementRange> own)
    : config_(config), spans_(std::move(spans)), elements_(elements), own_(own.value_or(ElementRange{0, elements})) {
  config_.validate();
  for (size_t i = 0; i < spans_.size(); ++i) {
    const UpdateSpan& s = spans_[i];
    for (int64_t at = 0; at < s.count; at += kShard)
      shards_.push_back({i, s.begin + at, std::min(kShard, s.count - at)});
  }
  const Dims dims{own_.count};
  const int wide = config_.quantised() ? 0 : config_.moments();
  if (config_.quantised()) {
    check((std::is_same_v<T, float>), "moments in 8 bits stand for those in fp32");
    for (int i = 0; i < config_.moments(); ++i) quantised_.emplace_back(spans_, i == 0);
  }
  if (config_.whole()) tensors_.emplace(config_, spans_);
  for (const UpdateSpan& s : spans_) clip_groups_ = std::max(clip_groups_, s.clip_group + 1);
  if (wide > 0) m_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  if (wide > 1) v_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  if (wide > 2) u_ = HostTensor::zeros(DTypeOf<T>::value, dims);
  for (HostTensor* const average : {config_.averages() ? &ema_ : nullptr, config_.lookahead > 0 ? &slow_ : nullptr}) {
    if (!average) continue;
    *average = HostTensor::zeros(DTypeOf<T>::value, dims);
    for (const Shard& all : shards_) {
      const Shard s = own_part(all);
      std::copy_n(params + s.begin, s.count, average->as_mutable<T>() + (s.begin - own_.begin));
    }
  }
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
  using Moment = DeviceUpdate::Moment;
  HostTensor& t = which == Moment::m     ? m_
                  : which == Moment::v   ? v_
                  : which == Moment::u   ? u_
                  : which == Moment::ema ? ema_
                                         : slow_;
  return t ? t.as_mutable<T>() : nullptr;
}

// float(1 / double(scale)), as torch.amp.GradScaler unscales.
template <class T>
T Optimizer<T>::inverse(double scale) const {
  return static_cast<T>(1.0 / scale);
}

template <class T>
GradStats Optimizer<T>::inspect(const T* grads, double scale, const T* curvature) const {
  GradStats out = look(grads, scale, config_.clip_mode == ClipMode::norm_inf);
  if (curvature) out.found_inf |= look(curvature, 1, false).found_inf;
  return out;
}

template <class T>
GradStats Optimizer<T>::look(const T* grads, double scale, bool inf_norm) const {
  const auto count = static_cast<int64_t>(shards_.size());
  std::vector<kernel::ShardStats> parts(shards_.size());
#pragma omp parallel for schedule(static) if (count > 4)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    if (spans_[s.span].from_step <= steps_) parts[static_cast<size_t>(i)] = kernel::inspect(grads + s.begin, s.count);
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
  out.found_inf |= !std::isfinite(inverse(scale));  // a scale that fell to 0: what it leaves cannot be scaled back
  const double scaled = inf_norm ? most : std::sqrt(sum);
  out.norm = out.found_inf ? std::sqrt(sum) : scaled * static_cast<double>(inverse(scale));
  for (size_t g = 0; clip_groups_ > 1 && g < sums.size(); ++g)
    out.group_norms.push_back((inf_norm ? tops[g] : std::sqrt(sums[g])) * static_cast<double>(inverse(scale)));
  return out;
}

template <class T>
kernel::ShardSpans<T> Optimizer<T>::spans_of(const Shard& s, T* params, const T* grads, const T* curvature) {
  const auto of = [&](DeviceUpdate::Moment which) {
    T* const span = moment(which);
    return span ? span + (s.begin - own_.begin) : nullptr;
  };
  using Moment = DeviceUpdate::Moment;
  return {params + s.begin,
          grads + s.begin,
          of(Moment::m),
          of(Moment::v),
          of(Moment::u),
          of(Moment::ema),
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
      rule_once<Element>(c.settings, steps_ - span.from_step, lr, here.facts);
    });
  }
  here.lr = lr * span.lr_factor;
  here.decay = span.weight_decay.value_or(config_.weight_decay);
  return here;
}

template <class T>
std::vector<RuleTerms<double>> Optimizer<T>::measure(T* params, const T* grads, double scale, const GradStats& stats,
                                                     const RuleStep& step, double lr) {
  const OptimizerConfig& c = config_;
  if (!rule_measures(c.rule, c.settings)) return {};
  std::vector<RuleTerms<double>> parts(shards_.size()), norms(spans_.size(), {0, 0});
  const auto count = static_cast<int64_t>(shards_.size());
#pragma omp parallel for schedule(static) if (count > 4)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    parts[static_cast<size_t>(i)] =
        kernel::measure(c.rule, c.settings, step_of(s.span, step, lr), spans_of(s, params, grads, nullptr),
                        transform_of(spans_[s.span], stats, scale));
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    norms[shards_[i].span].first += parts[i].first;
    norms[shards_[i].span].second += parts[i].second;
  }
  for (RuleTerms<double>& n : norms) n = {std::sqrt(n.first), std::sqrt(n.second)};
  return norms;
}

template <class T>
void Optimizer<T>::move_shard(const Shard& s, const RuleStep& step, kernel::ShardSpans<T> spans,
                              const kernel::GradTransform<T>& transform) {
  const OptimizerConfig& c = config_;
  T* const ema = spans.ema;
  const bool looks = c.lookahead > 0 && steps_ % c.lookahead == 0;
  if (looks) spans.ema = nullptr;  // it follows the weights that the step ends with
  if constexpr (std::is_same_v<T, float>) {
    const int64_t at = s.begin - spans_[s.span].begin;
    thread_local std::vector<float> buffers[2];
    for (size_t i = 0; i < quantised_.size(); ++i) {
      buffers[i].resize(static_cast<size_t>(kShard));
      (i == 0 ? spans.m : spans.v) = buffers[i].data();
      quantised_[i].load(s.span, at, s.count, buffers[i].data());
    }
    kernel::move(c.rule, c.settings, step, spans, transform);
    for (size_t i = 0; i < quantised_.size(); ++i) quantised_[i].store(s.span, at, s.count, buffers[i].data());
  } else {
    kernel::move(c.rule, c.settings, step, spans, transform);
  }
  if (!looks) return;
  spans.ema = ema;
  kernel::look_ahead(spans, slow_.as_mutable<T>() + (s.begin - own_.begin), static_cast<T>(c.lookahead_alpha),
                     transform.ema_decay);
}

template <class T>
bool Optimizer<T>::perturb(T* params, const T* grads, double scale) {
  const GradStats stats = look(grads, scale, false);
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
void Optimizer<T>::shape_gradients(const T* params, T* grads, double scale) const {
  const double inv = static_cast<double>(inverse(scale));
  for (const UpdateSpan& s : spans_) {
    const double bound = config_.clip_mode == ClipMode::adaptive ? clip_bound(s) : 0;
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

// Philox of seed, applied step and element: the same for any number of threads and ranks.
template <class T>
void Optimizer<T>::add_noise(T* grads, double scale) const {
  if (config_.gradient_noise == 0) return;
  constexpr uint64_t kSite = 0x4e6f6973;  // apart from other draws
  const double deviation = std::sqrt(config_.gradient_noise / std::pow(1 + static_cast<double>(steps_), 0.55)) * scale;
  const uint64_t high = kSite << 32 ^ static_cast<uint64_t>(steps_);
  for (const Shard& s : shards_) {
    if (spans_[s.span].from_step > steps_) continue;
    for (int64_t i = s.begin; i < s.begin + s.count; ++i) {
      // Box-Muller: two numbers of two words
      const PhiloxBlock r = philox(config_.noise_seed, high, static_cast<uint64_t>(i) / 2);
      const double u = 1 - static_cast<double>(philox_uniform(r.v[0]));
      const double angle = 2 * std::numbers::pi * static_cast<double>(philox_uniform(r.v[1]));
      const double radius = deviation * std::sqrt(-2 * std::log(u));
      grads[i] += static_cast<T>(radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
}

template <class T>
void Optimizer<T>::set_momentum(double momentum) {
  config_.settings.*cycled_key(config_.rule) = momentum;
}

template <class T>
bool Optimizer<T>::shapes_gradients() const {
  return config_.centralize ||
         (config_.clip_mode == ClipMode::adaptive &&
          std::any_of(spans_.begin(), spans_.end(), [&](const UpdateSpan& s) { return clip_bound(s) > 0; }));
}

template <class T>
std::vector<std::pair<std::string, HostTensor*>> Optimizer<T>::own_state() {
  if (tensors_) return tensors_->state();
  std::vector<std::pair<std::string, HostTensor*>> out;
  for (size_t i = 0; i < quantised_.size(); ++i) {
    const std::string name = i == 0 ? "m8" : "v8";
    const char* const parts[] = {"/codes", "/largest", "/small tensors"};
    for (size_t k = 0; k < 3; ++k) out.emplace_back(name + parts[k], quantised_[i].parts()[k]);
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
  kernel::GradTransform<T> transform{inverse(scale), T(1), std::numeric_limits<T>::infinity(),
                                     static_cast<T>(config_.average_keeps(steps_))};
  const double bound = clip_bound(s);
  if (bound == 0) return transform;
  if (config_.clip_mode == ClipMode::value) transform.limit = static_cast<T>(bound);
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
  with_element(c.rule, c.settings, [&]<class Element>(Element) { rule_once<Element>(c.settings, steps_, lr, facts_); });
  std::copy(std::begin(facts_), std::end(facts_), std::begin(step.facts));
  const std::vector<RuleTerms<double>> norms = measure(params, grads, scale, stats, step, lr);
  const auto count = static_cast<int64_t>(shards_.size());
#pragma omp parallel for schedule(static) if (count > 4)
  for (int64_t i = 0; i < count; ++i) {
    const Shard s = own_part(shards_[static_cast<size_t>(i)]);
    if (s.count == 0 || spans_[s.span].from_step >= steps_) continue;
    RuleStep here = step_of(s.span, step, lr);
    if (!norms.empty()) {
      here.norms[0] = norms[s.span].first;
      here.norms[1] = norms[s.span].second;
    }
    move_shard(s, here, spans_of(s, params, grads, curvature), transform_of(spans_[s.span], stats, scale));
  }
}

// Tensor by tensor: each is cut among the threads.
template <class T>
void Optimizer<T>::move_tensors(T* params, const T* grads, double scale, const GradStats& stats, double lr) {
  for (size_t i = 0; i < spans_.size(); ++i) {
    const UpdateSpan& s = spans_[i];
    if (s.from_step >= steps_) continue;
    tensors_->move(i, step_of(i, {}, lr), steps_ - s.from_step, params + s.begin, grads + s.begin,
                   transform_of(s, stats, scale));
    follow(s, params);
  }
}

template <class T>
void Optimizer<T>::follow(const UpdateSpan& s, T* params) {
  const OptimizerConfig& c = config_;
  T* const p = params + s.begin;
  if (c.lookahead > 0 && steps_ % c.lookahead == 0) {
    T* const slow = slow_.as_mutable<T>() + s.begin;
    const T alpha = static_cast<T>(c.lookahead_alpha);
    for_elements(s.count, [&](int64_t i) { p[i] = slow[i] = slow[i] + alpha * (p[i] - slow[i]); });
  }
  if (!c.averages()) return;
  T* const ema = ema_.as_mutable<T>() + s.begin;
  const T keep = static_cast<T>(c.average_keeps(steps_)), rest = 1 - keep;
  for_elements(s.count, [&](int64_t i) { ema[i] = keep * ema[i] + rest * p[i]; });
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace amp
