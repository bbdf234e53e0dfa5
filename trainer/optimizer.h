// The update: two passes over the flat arenas.
//
//   pass 1  inspect   is any gradient non-finite (elementwise); 2-norm (sum of squares in fp64) or inf-norm
//   pass 2  apply     unscale -> clip -> weights, moments -> EMA, fused; not run at all when pass 1 found an inf
//
// Work is cut into shards of a fixed number of elements whatever the thread count, and partial sums are added in shard
// order: the same bits from any number of threads. Arithmetic and its order are torch.optim's (single-tensor CPU
// path); what "step t" counts are applied steps. T is float, or double under --dtype fp64.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "trainer/arena.h"

namespace amp {

enum class OptimizerKind { sgd, adam, adamw };  // adam: decay added to the gradient; adamw: decoupled
enum class ClipMode { norm2, norm_inf, value };

OptimizerKind optimizer_from_name(
    const std::string& name);                           // "sgd", "adam", "adamw"; usage error with the nearest name
ClipMode clip_mode_from_name(const std::string& name);  // "norm", "inf", "value"

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
  double momentum = 0;                            // sgd; dampening is 0
  bool nesterov = false;
  double weight_decay = 0;
  ClipMode clip_mode = ClipMode::norm2;
  double max_grad_norm = 0;  // 0: no clipping; in mode value the bound of an element
  double ema_decay = 0;      // 0: no EMA

  void validate() const;  // usage error naming the flag and its range
};

struct GradStats {
  bool found_inf = false;  // some gradient element is infinite or NaN
  double norm = 0;         // of the unscaled gradients, before clipping; inf or NaN when found_inf
};

// The first chunk that trains and holds a non-finite element, by name; empty when all are finite.
template <class T>
std::string first_nonfinite(const FlatLayout& layout, const T* span);

template <class T>
class Optimizer {
 public:
  // params: the initial weights, from which the EMA starts; layout.size() elements. grads below:
  // layout.trained_size() elements, as moments and EMA have.
  Optimizer(const OptimizerConfig& config, FlatLayout layout, const T* params);

  // Pass 1. grads hold d(scale * loss)/dw.
  GradStats inspect(const T* grads, double scale) const;

  // Pass 2 with the statistics of pass 1 (over ranks: after their reduction). Returns false, and changes nothing, when
  // found_inf. The gradients are left as they are.
  bool apply(T* params, const T* grads, double scale, const GradStats& stats, double lr);

  // The first chunk that trains and holds a non-finite element, by name; empty when all are finite. For messages, and
  // to keep broken weights out of checkpoints.
  std::string first_nonfinite(const T* span) const { return amp::first_nonfinite(layout_, span); }

  int64_t steps() const { return steps_; }  // applied steps
  const T* ema() const;                     // null without EMA
  const FlatLayout& layout() const { return layout_; }
  const OptimizerConfig& config() const { return config_; }

  // Moments and EMA per trained parameter as "m/NAME", "v/NAME", "ema/NAME": views that the next apply() overwrites.
  std::map<std::string, HostTensor> state() const;
  // Other names, types or shapes than state() has: exit 6 E_CKPT_MISMATCH. Other entries of the map are ignored.
  void load_state(const std::map<std::string, HostTensor>& state, int64_t steps);

 private:
  struct Shard {
    size_t chunk;
    int64_t begin, count;  // elements of the span
  };
  T inverse(double scale) const;

  OptimizerConfig config_;
  FlatLayout layout_;
  std::vector<Shard> shards_;
  HostTensor m_, v_, ema_;  // empty when the method has none
  int64_t steps_ = 0;
};

// Adds the chunks of a span that train to a checkpoint as "PREFIX/NAME": views.
template <class T>
void add_views(const FlatLayout& layout, const std::string& prefix, const T* span,
               std::map<std::string, HostTensor>& out);
// Copies "PREFIX/NAME" of every chunk that trains into the span; missing or different: exit 6 E_CKPT_MISMATCH.
template <class T>
void copy_views(const FlatLayout& layout, const std::string& prefix, const std::map<std::string, HostTensor>& from,
                T* span);

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace amp
