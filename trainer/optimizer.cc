#include "trainer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "trainer/optimizer_kernels.h"

namespace amp {

namespace {
constexpr int64_t kShard = 16384;  // elements: all five spans of a shard fit in a second-level cache

template <class E, size_t N>
E from_name(const std::string& what, const std::string& name, const std::array<std::pair<const char*, E>, N>& table) {
  std::vector<std::string> known;
  for (const auto& [text, value] : table) {
    if (name == text) return value;
    known.emplace_back(text);
  }
  const std::string near = nearest(name, known);
  fail(Exit::usage, "E_FLAG_VALUE", cat("--", what, ": unknown value '", printable(name), "'"),
       cat(near.empty() ? "" : "did you mean '" + near + "'? ", "one of: ", join(known, ", ")));
}

void require(bool ok, const char* flag, double value, const char* range) {
  if (!ok) fail(Exit::usage, "E_FLAG_RANGE", cat("--", flag, " is ", value), cat("give ", range));
}

const HostTensor& find(const std::map<std::string, HostTensor>& from, const std::string& name, DType dtype,
                       const Chunk& chunk) {
  const auto it = from.find(name);
  if (it == from.end()) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH", cat("the checkpoint holds no tensor '", printable(name), "'"),
         "it was written for another model or optimizer: resume with the same ones, or start afresh");
  }
  const HostTensor& t = it->second;
  if (t.dtype() != dtype || t.dims() != chunk.dims) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH",
         cat("tensor '", printable(name), "' is ", name_of(t.dtype()), to_string(t.dims()), " in the checkpoint, ",
             name_of(dtype), to_string(chunk.dims), " in this run"),
         "resume with the model and settings that the checkpoint was written for, or start afresh");
  }
  return t;
}
}  // namespace

OptimizerKind optimizer_from_name(const std::string& name) {
  return from_name("optimizer", name,
                   std::array{std::pair{"adamw", OptimizerKind::adamw}, std::pair{"adam", OptimizerKind::adam},
                              std::pair{"sgd", OptimizerKind::sgd}});
}

ClipMode clip_mode_from_name(const std::string& name) {
  return from_name("clip_mode", name,
                   std::array{std::pair{"norm", ClipMode::norm2}, std::pair{"inf", ClipMode::norm_inf},
                              std::pair{"value", ClipMode::value}});
}

// The comparisons are written so that NaN fails them.
void OptimizerConfig::validate() const {
  require(beta1 >= 0 && beta1 < 1, "adam_beta1", beta1, "a number in [0, 1)");
  require(beta2 >= 0 && beta2 < 1, "adam_beta2", beta2, "a number in [0, 1)");
  require(eps >= 0 && std::isfinite(eps), "adam_epsilon", eps, "a number >= 0");
  require(momentum >= 0 && momentum < 1, "momentum", momentum, "a number in [0, 1)");
  require(!nesterov || kind != OptimizerKind::sgd || momentum > 0, "momentum", momentum,
          "a number above 0: --nesterov needs it");
  require(weight_decay >= 0 && std::isfinite(weight_decay), "weight_decay", weight_decay, "a number >= 0");
  require(max_grad_norm >= 0, "max_grad_norm", max_grad_norm, "a number >= 0 (0: no clipping)");
  require(ema_decay >= 0 && ema_decay < 1, "ema_decay", ema_decay, "a number in [0, 1) (0: no EMA)");
}

template <class T>
Optimizer<T>::Optimizer(const OptimizerConfig& config, FlatLayout layout, const T* params)
    : config_(config), layout_(std::move(layout)) {
  config_.validate();
  for (size_t c = 0; c < layout_.chunks().size(); ++c) {
    const Chunk& chunk = layout_.chunks()[c];
    if (chunk.frozen) continue;
    for (int64_t at = 0; at < chunk.numel; at += kShard) {
      shards_.push_back({c, chunk.offset + at, std::min(kShard, chunk.numel - at)});
    }
  }
  const Dims span{layout_.trained_size()};
  const bool adam = config_.kind != OptimizerKind::sgd;
  if (adam || config_.momentum != 0) m_ = HostTensor::zeros(DTypeOf<T>::value, span);
  if (adam) v_ = HostTensor::zeros(DTypeOf<T>::value, span);
  if (config_.ema_decay != 0) {
    ema_ = HostTensor::zeros(DTypeOf<T>::value, span);
    for (const Chunk& c : layout_.chunks()) {
      if (!c.frozen) std::copy_n(params + c.offset, c.numel, ema_.as_mutable<T>() + c.offset);
    }
  }
}

template <class T>
const T* Optimizer<T>::ema() const {
  return ema_ ? ema_.template as<T>() : nullptr;
}

// float(1 / double(scale)), as torch.amp.GradScaler unscales.
template <class T>
T Optimizer<T>::inverse(double scale) const {
  return static_cast<T>(1.0 / scale);
}

template <class T>
GradStats Optimizer<T>::inspect(const T* grads, double scale) const {
  const auto count = static_cast<int64_t>(shards_.size());
  std::vector<kernel::ShardStats> parts(shards_.size());
#pragma omp parallel for schedule(static) if (count > 4)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    parts[static_cast<size_t>(i)] = kernel::inspect(grads + s.begin, s.count);
  }
  GradStats out;
  double sum = 0, most = 0;
  for (const kernel::ShardStats& p : parts) {
    out.found_inf |= p.found_inf;
    sum += p.sum_squares;
    most = std::max(most, p.max_abs);
  }
  out.found_inf |= !std::isfinite(inverse(scale));  // a scale that fell to 0: what it leaves cannot be scaled back
  const double scaled = config_.clip_mode == ClipMode::norm_inf ? most : std::sqrt(sum);
  out.norm = out.found_inf ? std::sqrt(sum) : scaled * static_cast<double>(inverse(scale));
  return out;
}

template <class T>
bool Optimizer<T>::apply(T* params, const T* grads, double scale, const GradStats& stats, double lr) {
  if (stats.found_inf) return false;
  ++steps_;
  const OptimizerConfig& c = config_;
  const bool by_value = c.clip_mode == ClipMode::value;
  kernel::Around<T> around{inverse(scale), T(1), std::numeric_limits<T>::infinity(), static_cast<T>(c.ema_decay)};
  if (c.max_grad_norm > 0 && by_value) around.limit = static_cast<T>(c.max_grad_norm);
  if (c.max_grad_norm > 0 && !by_value) {
    around.clip = clip_coefficient<T>(stats.norm, c.max_grad_norm);
  }
  const auto t = static_cast<double>(steps_);
  const double bias1 = 1 - std::pow(c.beta1, t), bias2 = 1 - std::pow(c.beta2, t);
  T* const m = m_ ? m_.as_mutable<T>() : nullptr;
  T* const v = v_ ? v_.as_mutable<T>() : nullptr;
  T* const ema = ema_ ? ema_.as_mutable<T>() : nullptr;

  const auto count = static_cast<int64_t>(shards_.size());
#pragma omp parallel for schedule(static) if (count > 4)
  for (int64_t i = 0; i < count; ++i) {
    const Shard& s = shards_[static_cast<size_t>(i)];
    const Chunk& chunk = layout_.chunks()[s.chunk];
    const double rate = lr * chunk.lr_factor, decay = chunk.decay ? c.weight_decay : 0.0;
    const kernel::ShardSpans<T> spans{params + s.begin,
                                      grads + s.begin,
                                      m ? m + s.begin : nullptr,
                                      v ? v + s.begin : nullptr,
                                      ema ? ema + s.begin : nullptr,
                                      s.count};
    if (c.kind == OptimizerKind::sgd) {
      kernel::sgd(spans, around,
                  SgdScalars<T>{static_cast<T>(rate), static_cast<T>(decay), static_cast<T>(c.momentum), c.nesterov});
      continue;
    }
    kernel::adam(spans, around,
                 adam_scalars<T>(c.kind == OptimizerKind::adamw, c.beta1, c.beta2, c.eps, rate, decay, bias1, bias2));
  }
  return true;
}

template <class T>
std::string first_nonfinite(const FlatLayout& layout, const T* span) {
  for (const Chunk& c : layout.chunks()) {
    if (!c.frozen && kernel::inspect(span + c.offset, c.numel).found_inf) return c.name;
  }
  return {};
}

template <class T>
std::map<std::string, HostTensor> Optimizer<T>::state() const {
  std::map<std::string, HostTensor> out;
  if (m_) add_views(layout_, "m", m_.template as<T>(), out);
  if (v_) add_views(layout_, "v", v_.template as<T>(), out);
  if (ema_) add_views(layout_, "ema", ema_.template as<T>(), out);
  return out;
}

template <class T>
void Optimizer<T>::load_state(const std::map<std::string, HostTensor>& state, int64_t steps) {
  if (m_) copy_views(layout_, "m", state, m_.as_mutable<T>());
  if (v_) copy_views(layout_, "v", state, v_.as_mutable<T>());
  if (ema_) copy_views(layout_, "ema", state, ema_.as_mutable<T>());
  steps_ = steps;
}

template <class T>
void add_views(const FlatLayout& layout, const std::string& prefix, const T* span,
               std::map<std::string, HostTensor>& out) {
  for (const Chunk& c : layout.chunks()) {
    if (c.frozen) continue;
    out[prefix + "/" + c.name] = HostTensor(DTypeOf<T>::value, c.dims, nullptr, span + c.offset);
  }
}

template <class T>
void copy_views(const FlatLayout& layout, const std::string& prefix, const std::map<std::string, HostTensor>& from,
                T* span) {
  for (const Chunk& c : layout.chunks()) {
    if (c.frozen) continue;
    std::copy_n(find(from, prefix + "/" + c.name, DTypeOf<T>::value, c).template as<T>(), c.numel, span + c.offset);
  }
}

template std::string first_nonfinite(const FlatLayout&, const float*);
template std::string first_nonfinite(const FlatLayout&, const double*);
template class Optimizer<float>;
template class Optimizer<double>;
template void add_views(const FlatLayout&, const std::string&, const float*, std::map<std::string, HostTensor>&);
template void add_views(const FlatLayout&, const std::string&, const double*, std::map<std::string, HostTensor>&);
template void copy_views(const FlatLayout&, const std::string&, const std::map<std::string, HostTensor>&, float*);
template void copy_views(const FlatLayout&, const std::string&, const std::map<std::string, HostTensor>&, double*);

}  // namespace amp
