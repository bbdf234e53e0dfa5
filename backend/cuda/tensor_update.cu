#include "backend/cuda/tensor_update.h"
#include "backend/update_rules.h"

namespace amp::cuda {

namespace {

using namespace update_kernels;

// Writes the scalars of a tensor's step.
struct BeginTensor {
  Moves moves;
  double lr_factor, decay;
  int64_t from_step;
  TensorTime* now;
  DEV void operator()(int64_t) const {
    const UpdateState& s = *moves.state;
    *now = {s.lr * lr_factor, decay, s.applied - from_step};
  }
};
// Writes the unscaled and clipped gradient of a tensor.
struct TransformGradient {
  Moves moves;
  int64_t clip_group;
  float limit;
  const float* from;
  float* to;
  DEV void operator()(int64_t i) const {
    const float clip = moves.clips ? moves.clips[clip_group] : moves.state->clip;
    to[i] = transformed(from[i], moves.state->inverse, clip, limit);
  }
};

}  // namespace

TensorUpdate::TensorUpdate(CudaDevice& device, const UpdateSpec& spec)
    : d_(device), layout_(spec.optimizer.rule, spec.optimizer.settings, spec.spans), tools_(device) {
  for (const TensorLayout::Kept& k : layout_.kept) kept_.push_back(d_.allocate(k.count * 4));
  gradient_ = d_.allocate(layout_.largest * 4);
  scratch_ = d_.allocate(layout_.scratch * 4);
  sums_ = d_.allocate(layout_.sums * 8);
  now_ = d_.allocate(sizeof(TensorTime));
}

void TensorUpdate::launch(const UpdateSpec& spec, const Moves& moves) {
  const OptimizerConfig& o = spec.optimizer;
  auto* const now = static_cast<TensorTime*>(now_.get());
  auto* const g = static_cast<float*>(gradient_.get());
  for (size_t i = 0; i < spec.spans.size(); ++i) {
    const UpdateSpan& s = spec.spans[i];
    if (s.count == 0) continue;
    const TensorWorker worker(tools_, {moves.state, s.from_step});
    const auto limit = static_cast<float>(o.element_limit(s));
    worker.elements(1, BeginTensor{moves, s.lr_factor, s.weight_decay.value_or(o.weight_decay), s.from_step, now});
    worker.elements(s.count, TransformGradient{moves, s.clip_group, limit, spec.grads + s.begin, g});
    TensorStep<float> x{layout_.shapes[i],
                        s.count,
                        now,
                        spec.params + s.begin,
                        g,
                        {},
                        static_cast<float*>(scratch_.get()),
                        static_cast<double*>(sums_.get())};
    for (size_t k = 0; k < kept_.size(); ++k) x.s[k] = static_cast<float*>(kept_[k].get()) + layout_.kept[k].begin[i];
    with_tensor_rule(o.rule, [&]<class Rule>(Rule) { Rule::template step<float>(o.settings, worker, x); });
  }
}

std::vector<std::pair<std::string, Tensor>> TensorUpdate::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (size_t k = 0; k < kept_.size(); ++k)
    out.emplace_back(layout_.kept[k].name, Tensor{kept_[k].get(), DType::f32, {layout_.kept[k].count}});
  return out;
}

}  // namespace amp::cuda
