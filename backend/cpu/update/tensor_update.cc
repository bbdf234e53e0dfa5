#include "backend/cpu/update/tensor_update.h"

#include "backend/cpu/update/tensor_worker.h"
#include "backend/update_rules.h"

namespace amp {

template <class T>
TensorUpdate<T>::TensorUpdate(const OptimizerConfig& config, const std::vector<UpdateSpan>& spans)
    : rule_(config.rule),
      settings_(config.settings),
      layout_(rule_, settings_, spans),
      gradient_(static_cast<size_t>(layout_.largest)),
      scratch_(static_cast<size_t>(layout_.scratch)),
      sums_(static_cast<size_t>(layout_.sums)) {
  for (const TensorLayout::Kept& k : layout_.kept) kept_.push_back(HostTensor::zeros(DTypeOf<T>::value, {k.count}));
}

template <class T>
void TensorUpdate<T>::step(size_t span, const TensorTime& now, T* p, const T* grads,
                           const kernel::GradTransform<T>& transform) {
  const TensorShape& shape = layout_.shapes[span];
  const int64_t n = shape.count();
  if (n == 0) return;
  const cpu::TensorWorker worker;
  T* const g = gradient_.data();
  worker.elements(n, [&](int64_t i) { g[i] = kernel::transformed(transform, grads[i]); });
  TensorStep<T> x{shape, n, &now, p, g, {}, scratch_.data(), sums_.data()};
  for (size_t k = 0; k < kept_.size(); ++k) x.s[k] = kept_[k].template as_mutable<T>() + layout_.kept[k].begin[span];
  with_tensor_rule(rule_, [&]<class Rule>(Rule) { Rule::template step<T>(settings_, worker, x); });
}

template <class T>
std::vector<std::pair<std::string, HostTensor*>> TensorUpdate<T>::state() {
  std::vector<std::pair<std::string, HostTensor*>> out;
  for (size_t k = 0; k < kept_.size(); ++k) out.emplace_back(layout_.kept[k].name, &kept_[k]);
  return out;
}

template class TensorUpdate<float>;
template class TensorUpdate<double>;

}  // namespace amp
