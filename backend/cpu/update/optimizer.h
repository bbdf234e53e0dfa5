// The update on the CPU: two passes over the flat spans.
//
//   pass 1  inspect   is any gradient non-finite (elementwise); 2-norm (sum of squares in fp64) or inf-norm
//   pass 2  apply     (norms of tensors first, for a rule that needs them)
//                     unscale -> clip -> weights, moments -> EMA, fused; not run at all when pass 1 found an inf
//
// Work is cut into shards of a fixed number of elements whatever the thread count, and partial sums are added in shard
// order: the same bits from any number of threads. Arithmetic and its order are torch.optim's (single-tensor CPU
// path); what "step t" counts are applied steps. T is float, or double for checks.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/update/quantised.h"
#include "backend/cpu/update/resting_rows.h"
#include "backend/cpu/update/tensor_update.h"
#include "backend/cpu/update/update_loops.h"
#include "backend/update.h"
#include "base/host_tensor.h"

namespace amp {

struct GradStats {
  bool found_inf = false;             // some gradient element is infinite or NaN
  double norm = 0;                    // of the unscaled gradients, before clipping; inf or NaN when found_inf
  std::vector<double> group_norms{};  // of each clipping group, where there are several
};

template <class T>
class Optimizer {
 public:
  // params: the initial weights, from which the EMA starts. They and the gradients below have `elements` elements;
  // those in no span stay as they are. own: the elements that are moved here, and that have moments and averages; all
  // where it says nothing.
  Optimizer(const OptimizerConfig& config, std::vector<UpdateSpan> spans, int64_t elements, const T* params,
            std::optional<ElementRange> own = {});

  // Pass 1. grads hold d(scale * loss)/dw. curvature: of a rule that needs it, unscaled; it must be finite too.
  GradStats inspect(const T* grads, double scale, const T* curvature = nullptr) const;

  // Pass 2 with the statistics of pass 1 (over ranks: after their reduction). Returns false, and changes nothing, when
  // found_inf. The gradients are left as they are.
  bool apply(T* params, const T* grads, double scale, const GradStats& stats, double lr, const T* curvature = nullptr);

  // SAM's first step: params += rho / norm(gradients) * gradients, unscaled. False, and nothing changes, when one of
  // them is not finite. restore() puts the weights back as they were.
  bool perturb(T* params, const T* grads, double scale);
  void restore(T* params) const;
  // Unit by unit, where the settings ask for it: centralized, then clipped by the norm of the unit's weights.
  void shape_gradients(const T* params, T* grads, double scale) const;
  bool shapes_gradients() const { return config_.shapes_gradients(spans_); }
  // Gradient noise, where the settings ask for it: before the norm is taken.
  void add_noise(T* grads, double scale) const;
  void set_momentum(double momentum);  // of the steps that follow: momentum, or beta1 of a rule that has that
  // A new estimate of the Hessian's diagonal: in each kernel of a convolution its magnitude's mean, where the rule asks
  // for it.
  void average_curvature(T* curvature) const;

  int64_t steps() const { return steps_; }  // applied steps
  void set_steps(int64_t n) {
    if (n != steps_) moments_known_ = moments_fresh_ = false;
    steps_ = n;
  }
  double (&facts())[kRuleFacts] { return facts_; }  // of the last step
  // Of the own elements; null when it is not kept. What is written there is noticed.
  T* moment(DeviceUpdate::Moment which);
  const ElementRange& own() const { return own_; }
  std::vector<std::pair<std::string, HostTensor*>> own_state();  // not laid out like the parameters

 private:
  struct Shard {
    size_t span;
    int64_t begin, count;  // elements
  };
  Shard own_part(const Shard& s) const;  // of no elements where it is another's
  T inverse(double scale) const;
  T* span_of(DeviceUpdate::Moment which);
  void find_resting_rows();
  // Zeros to moments that are zero: memory that is first written is given out once, memory that is first read twice.
  void touch_moments(int64_t begin, int64_t end);
  kernel::ShardSpans<T> spans_of(const Shard& s, T* params, const T* grads, const T* curvature);
  GradStats look(const T* grads, double scale, bool inf_norm, bool of_step) const;
  kernel::GradTransform<T> transform_of(const UpdateSpan& s, const GradStats& stats, double scale) const;
  void move_shards(T* params, const T* grads, double scale, const GradStats& stats, double lr, const T* curvature);
  void move_tensors(T* params, const T* grads, double scale, const GradStats& stats, double lr);
  // After the elements [begin, begin + count) have moved: Lookahead, then averages, from the first-th on.
  void follow(int64_t begin, int64_t count, T* params, size_t first);
  bool looks() const { return config_.lookahead > 0 && steps_ % config_.lookahead == 0; }
  void move_part(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                 const kernel::GradTransform<T>& transform);
  void move_shard(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                  const kernel::GradTransform<T>& transform);
  RuleStep step_of(size_t span, const RuleStep& step, double lr) const;  // with the span's rate and decay
  // The norms of each span that the rule needs, added up in the order of its shards; empty when it needs none.
  std::vector<RuleTerms<double>> measure(T* params, const T* grads, double scale, const GradStats& stats,
                                         const RuleStep& step, double lr);

  OptimizerConfig config_;
  std::vector<UpdateSpan> spans_;
  int64_t elements_;
  ElementRange own_;
  std::vector<Shard> shards_;
  bool in_parallel_ = false;                    // there is more to do than waking threads takes
  std::vector<QuantisedMoment> quantised_;      // in the place of m_ and v_
  std::optional<TensorUpdate<T>> tensors_;      // of a rule of whole tensors
  mutable std::optional<RestingRows> resting_;  // where gradients of zero may be skipped
  bool moments_known_ = true;                   // resting_ says which rows of them are zero
  bool moments_fresh_ = true;                   // all zero, in memory that nobody has touched
  int clip_groups_ = 1;
  HostTensor m_, v_, u_, slow_, kept_;  // empty when they are not kept; kept_: SAM's weights
  std::vector<HostTensor> averages_;
  int64_t steps_ = 0;
  double facts_[kRuleFacts] = {};
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace amp
