// The optimizer on the CPU: two passes over the flat arrays of weights, gradients and moments.
//
//   pass 1  inspect   checks that all gradients are finite; computes the 2-norm (squares summed in fp64) or inf-norm
//   pass 2  apply     (norms of tensors first, if the rule needs them)
//                     unscale -> clip -> weights, moments -> EMA, fused; skipped if pass 1 found an infinity or NaN
//
// Work is divided into shards with a fixed number of elements, for any number of threads. Partial sums are added in
// shard order, which gives the same bits for any number of threads. Arithmetic and its order follow torch.optim
// (single-tensor CPU path). The step number t counts applied steps. T is float, or double for checks.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/update/quantized.h"
#include "backend/cpu/update/tensor_update.h"
#include "backend/cpu/update/update_loops.h"
#include "backend/cpu/update/zero_gradient_rows.h"
#include "backend/update.h"
#include "base/host_tensor.h"

namespace amp {

struct GradStats {
  bool found_inf = false;             // true if an element of a gradient is infinite or NaN
  double norm = 0;                    // 2-norm of the unscaled gradients, before clipping; inf or NaN if found_inf
  std::vector<double> group_norms{};  // norm of each clipping group, if there are several
};

template <class T>
class Optimizer {
 public:
  // params: the initial weights, from which the EMA starts. params and gradients have `elements` elements; elements
  // outside of all spans (a span is the elements of one tensor) are not changed. own: the range of elements that this
  // rank updates and for which it has moments and averages; by default all elements.
  Optimizer(const OptimizerConfig& config, std::vector<UpdateSpan> spans, int64_t elements, const T* params,
            std::optional<ElementRange> own = {});

  // Runs pass 1. grads are d(scale * loss)/dw. curvature: the unscaled estimate of the Hessian's diagonal, for a rule
  // that needs it. found_inf is also set if the estimate is not finite.
  GradStats inspect(const T* grads, double scale, const T* curvature = nullptr) const;

  // Runs pass 2 with the statistics of pass 1, after their reduction over ranks. Returns false and changes nothing if
  // found_inf. Gradients are not changed.
  bool apply(T* params, const T* grads, double scale, const GradStats& stats, double lr, const T* curvature = nullptr);

  // Takes SAM's first step: params += rho / norm(gradients) * gradients, unscaled. Returns false and changes nothing if
  // a gradient is not finite. restore() reverts the weights.
  bool perturb(T* params, const T* grads, double scale);
  void restore(T* params) const;
  // Transforms gradients for each unit (the weights of one output, UpdateSpan::unit), if the settings ask for it:
  // centralizes them, then clips by the norm of the unit's weights.
  void transform_gradients(const T* params, T* grads, double scale) const;
  bool transforms_gradients() const { return config_.transforms_gradients(spans_); }
  // Adds gradient noise, if the settings ask for it. Call before the norm is computed.
  void add_noise(T* grads, double scale) const;
  void set_momentum(double momentum);  // sets momentum of later steps, or beta1 for a rule that has beta1
  // Replaces a new estimate of the Hessian's diagonal by its mean magnitude over each convolution kernel, if the rule
  // asks for it.
  void average_curvature(T* curvature) const;

  int64_t steps() const { return steps_; }  // number of applied steps
  void set_steps(int64_t n) {
    if (n != steps_) moments_known_ = moments_fresh_ = false;
    steps_ = n;
  }
  double (&step_scalars())[kStepScalars] { return step_scalars_; }  // scalars of the last step
  // Returns the values of a moment for the elements own(); null if the moment is not kept. The caller may write to
  // them, so the next step determines zero-gradient rows again.
  T* moment(DeviceUpdate::Moment which);
  const ElementRange& own() const { return own_; }
  std::vector<std::pair<std::string, HostTensor*>> own_state();  // state with a layout other than the parameters'

 private:
  struct Shard {
    size_t span;
    int64_t begin, count;  // first element, and number of elements
  };
  Shard own_part(const Shard& s) const;  // returns the elements of s in own_; empty if there are none
  T inverse(double scale) const;
  T* span_of(DeviceUpdate::Moment which);
  void find_zero_rows();
  // Writes zeros to moments that are zero and were never accessed, because the system maps a page once if it is written
  // first, twice if it is read first.
  void touch_moments(int64_t begin, int64_t end);
  kernel::ShardSpans<T> spans_of(const Shard& s, T* params, const T* grads, const T* curvature);
  GradStats statistics_of(const T* grads, double scale, bool inf_norm, bool of_step) const;
  kernel::GradTransform<T> transform_of(const UpdateSpan& s, const GradStats& stats, double scale) const;
  void move_shards(T* params, const T* grads, double scale, const GradStats& stats, double lr, const T* curvature);
  void move_tensors(T* params, const T* grads, double scale, const GradStats& stats, double lr);
  // Applies Lookahead to elements [begin, begin + count), which have been updated, then updates averages `first`, first
  // + 1, ... of these elements.
  void follow(int64_t begin, int64_t count, T* params, size_t first);
  bool lookahead_due() const { return config_.lookahead > 0 && steps_ % config_.lookahead == 0; }
  void move_part(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                 const kernel::GradTransform<T>& transform);
  void move_shard(const Shard& s, const RuleStep& step, T* params, const T* grads, const T* curvature,
                  const kernel::GradTransform<T>& transform);
  RuleStep step_of(size_t span, const RuleStep& step, double lr) const;  // adds the span's rate and decay
  // Returns the norms per span that the rule needs, added in the order of the shards; empty if the rule needs none.
  std::vector<NormTerms<double>> norms_of(T* params, const T* grads, double scale, const GradStats& stats,
                                          const RuleStep& step, double lr);

  OptimizerConfig config_;
  std::vector<UpdateSpan> spans_;
  int64_t elements_;
  ElementRange own_;
  std::vector<Shard> shards_;
  bool in_parallel_ = false;                           // true if the work takes longer than waking threads
  std::vector<QuantizedMoment> quantized_;             // 8-bit moments, used instead of m_ and v_
  std::optional<TensorUpdate<T>> tensors_;             // set if the optimizer is tensor-wise
  mutable std::optional<ZeroGradientRows> zero_rows_;  // set if zero gradients may be skipped
  bool moments_known_ = true;                          // false: zero_rows_ must be determined again from the moments
  bool moments_fresh_ = true;                          // moments are zero and were never accessed
  int clip_groups_ = 1;
  HostTensor m_, v_, u_, slow_, kept_;  // empty if not kept; kept_: SAM's saved weights
  std::vector<HostTensor> averages_;
  int64_t steps_ = 0;
  double step_scalars_[kStepScalars] = {};
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace amp
