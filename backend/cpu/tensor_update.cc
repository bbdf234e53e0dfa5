#include "backend/cpu/tensor_update.h"

#include <algorithm>

#include "backend/update_rules.h"

namespace amp {

template <class T>
TensorUpdate<T>::TensorUpdate(const OptimizerConfig& config, const std::vector<UpdateSpan>& spans)
    : rule_(config.rule), settings_(config.settings) {
  int64_t largest = 0, scratch = 0;
  for (const UpdateSpan& s : spans) {
    shapes_.push_back({s.dims, s.elementwise});
    check(shapes_.back().count() == s.count, "a rule of whole tensors is told their dimensions");
    largest = std::max(largest, s.count);
  }
  with_whole_rule(rule_, [&]<class Rule>(Rule) {
    std::vector<int64_t> sizes;
    for (const TensorShape& shape : shapes_) {
      scratch = std::max(scratch, Rule::scratch(settings_, shape));
      const std::vector<TensorState> states = Rule::states(settings_, shape);
      kept_.resize(states.size());
      sizes.resize(states.size());
      for (size_t i = 0; i < states.size(); ++i) {
        kept_[i].name = states[i].name;
        kept_[i].begin.push_back(sizes[i]);
        sizes[i] += states[i].count;
      }
    }
    for (size_t i = 0; i < kept_.size(); ++i) kept_[i].values = HostTensor::zeros(DTypeOf<T>::value, {sizes[i]});
  });
  gradient_.resize(static_cast<size_t>(largest));
  scratch_.resize(static_cast<size_t>(scratch));
}

template <class T>
void TensorUpdate<T>::move(size_t span, const RuleStep& step, int64_t t, T* p, const T* grads,
                           const kernel::GradTransform<T>& transform) {
  const TensorShape& shape = shapes_[span];
  const int64_t n = shape.count();
  if (n == 0) return;
  T* const g = gradient_.data();
  for_elements(n, [&](int64_t i) { g[i] = kernel::transformed(transform, grads[i]); });
  std::vector<T*> state;
  for (Kept& k : kept_) state.push_back(k.values.template as_mutable<T>() + k.begin[span]);
  const TensorStep<T> x{shape, n, t, p, g, state, scratch_.data()};
  with_whole_rule(rule_, [&]<class Rule>(Rule) { Rule::template move<T>(settings_, step, x); });
}

template <class T>
std::vector<std::pair<std::string, HostTensor*>> TensorUpdate<T>::state() {
  std::vector<std::pair<std::string, HostTensor*>> out;
  for (Kept& k : kept_) out.emplace_back(rule_ + "/" + k.name, &k.values);
  return out;
}

template class TensorUpdate<float>;
template class TensorUpdate<double>;

}  // namespace amp
