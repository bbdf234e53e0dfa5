// DeviceUpdate: the end of a step, executed by the device that computed its gradients. Loss scale, step count,
// learning rate and all decisions are stored in the device's memory, so the host of a GPU does not wait within a
// step, whether it overflows or not. Results are read later. On the CPU a step is finished when apply() returns.
//
//   begin(coefficients)   clears the loss sums of the step; backward starts at scale * coefficient
//   seed(i, input)        before each micro-batch
//   add_term(i, sum)      after each micro-batch
//   perturb(), restore()  SAM: the weights move up the gradients for a second pass, and back before apply()
//   apply()               sums over the ranks; finite check and norm. If all is finite: unscale, clip, weights,
//                         moments, EMA, 16-bit copies, running statistics. The loss scale is updated in both cases.
//   take()                the oldest step not yet taken
//
// How an element moves is an update rule (backend/update_rule.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/device_communicator.h"
#include "backend/program.h"
#include "backend/update_rule.h"
#include "base/average_rule.h"
#include "base/scale_rule.h"

namespace amp {

constexpr int kMaxLossTerms = 16;
constexpr int kMaxAverages = 4;                                   // of the weights
constexpr int64_t kQuantizedBlock = 256, kLeastQuantized = 4096;  // elements: of a block of 8-bit moments, of a tensor

enum class ClipMode : uint8_t { norm2, norm_inf, value, adaptive };
ClipMode clip_mode_from_name(const std::string& name);       // "norm", "inf", "value", "agc"; usage error
std::string update_rule_from_name(const std::string& name);  // validates the name of a rule; usage error

std::vector<RuleKey> rule_keys(std::string_view rule);  // the settings of a rule
// The rule's defaults, overridden by the given keys. Usage error (E_FLAG_VALUE) for a key that the rule does not
// have.
RuleSettings rule_settings(const std::string& rule, const std::map<std::string, double>& given);

// The setting that cyclic momentum (one-cycle) changes, as in torch: beta1 if there is one, otherwise momentum.
// Usage error for a rule with neither, and for tensor-wise optimizers.
double RuleSettings::*cycled_key(const std::string& rule);

struct UpdateSpan;

struct OptimizerConfig {
  std::string rule = "adamw";  // a row of backend/update_rules.h
  RuleSettings settings;
  double weight_decay = 0;
  ClipMode clip_mode = ClipMode::norm2;
  // 0: no clipping. In mode value: the bound of an element. In mode adaptive: the bound of a unit, as a multiple of
  // the norm of its weights.
  double max_grad_norm = 0;
  bool centralize = false;  // gradient centralization (Yong et al. 2020, arXiv:2004.01461)
  // Moving averages of the weights, one per decay, at most kMaxAverages. With SWA its average is the only one.
  std::vector<double> ema_decays;
  int64_t ema_every = 1;
  bool ema_warmup = false;
  int64_t swa_start = -1;
  double gradient_noise = 0;  // eta (backend/gradient_noise.h); 0: none
  uint64_t noise_seed = 0;
  // Lookahead (Zhang et al. 2019, arXiv:1907.08610): every `lookahead` steps, slow weights move by
  // `lookahead_alpha` towards the weights, and the weights continue from there. 0: none.
  int64_t lookahead = 0;
  double lookahead_alpha = 0.5;
  double sam_rho = 0;       // sharpness-aware minimization (Foret et al. 2021, arXiv:2010.01412); 0: none
  int64_t state_bits = 32;  // 8: block-wise quantized moments (backend/cpu/update/quantized.h)
  // ZeRO stage 1 (Rajbhandari et al. 2020, arXiv:1910.02054): the number of ranks that divide moments and averages;
  // each rank updates its shard. 1: not sharded.
  int64_t shards = 1;

  void validate() const;  // usage error with the flag and its range
  int moments() const;    // number of moments that the rule keeps
  bool sharded() const { return shards > 1; }
  // Bytes of moments, averages, copies of weights, and the curvature estimate.
  int64_t state_bytes(const std::vector<UpdateSpan>& spans, int64_t elements) const;
  int averages() const { return swa_start >= 0 ? 1 : static_cast<int>(ema_decays.size()); }
  AverageRule average_rule(int k) const;
  std::string average_name(int k) const;  // in checkpoints: "ema" for the first, "ema:0.999" for others
  bool quantized() const { return state_bits == 8; }
  // True if the gradients of some span are transformed per unit before the rule receives them.
  bool transforms_gradients(const std::vector<UpdateSpan>& spans) const;
  double clip_bound(const UpdateSpan& span) const;  // max_grad_norm of its group
  // The bound of a gradient's element in mode value; otherwise infinity.
  double element_limit(const UpdateSpan& span) const;
  bool needs_hessian_diagonal() const;  // the rule needs an estimate of the Hessian's diagonal
  bool samples_labels() const;          // for that estimate, labels are sampled from the model
  bool has_evaluated_weights() const;   // the evaluated weights differ from the trained ones
  bool keeps_step_scalars() const;      // has scalars that persist from step to step
  bool tensor_wise() const;             // the rule is a tensor-wise optimizer
};

// Converts trained weights in place to those that are evaluated and exported, for a rule where they differ. m: the
// rule's first moment, element by element.
void convert_to_evaluated(const OptimizerConfig& optimizer, float* params, const float* m, int64_t count);

// A range of trained elements within the parameters, with its own settings.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  std::optional<double> weight_decay;  // overrides the optimizer's
  double lr_factor = 1;                // times the schedule's rate
  int slot = -1;
  int64_t kernel = 1;  // elements of one convolution kernel, contiguous
  // Elements of a unit, the weights of one output (timm's unitwise_norm), contiguous. 0: the whole vector or
  // tensor.
  int64_t unit = 0;
  bool matrix = false;       // rank 2 or more
  Dims dims{};               // for tensor-wise optimizers
  bool elementwise = false;  // a rule for matrices updates it as it updates vectors
  // Gradients are clipped by the norm of their group, to max_grad_norm. Group 0: all spans without a group, clipped
  // to the optimizer's max_grad_norm.
  int clip_group = 0;
  double max_grad_norm = 0;
  int64_t from_step = 0;  // number of applied steps before which it is frozen and its gradient is ignored
};

struct UpdateSpec {
  OptimizerConfig optimizer;
  ScaleRule scale;
  std::function<double(int64_t)> lr;  // by applied steps before this one
  // Set if a schedule cycles it: momentum, or beta1 for a rule that has beta1.
  std::function<double(int64_t)> momentum;
  int64_t max_steps = 0;          // a device may tabulate lr up to here; the last value applies to all later steps
  std::vector<UpdateSpan> spans;  // ranges of the elements below that are trained
  float* params = nullptr;        // on the device, as all pointers here
  float* grads = nullptr;
  float* curvature = nullptr;  // for a rule that needs it: the estimate of the Hessian's diagonal
  int64_t elements = 0;        // trained elements of params, moments and EMA, including gaps (zeros)
  // For a sharded optimizer: the shard whose moments are kept and whose weights are updated here. `gather` collects
  // the rest of params and is called in every applied step.
  std::optional<ElementRange> own;
  std::function<void()> gather;
  // With several ranks, each of which has a part of the step's rows: gradients, curvature, statistics and loss sums
  // are summed over the ranks before they are used. Null: one rank.
  DeviceCommunicator* ranks = nullptr;

  struct Statistic {
    float* committed = nullptr;
    float* staged = nullptr;
    int64_t count = 0;
    int slot = -1;
  };
  std::vector<Statistic> statistics;
  int terms = 1;  // loss terms, at most kMaxLossTerms
};

// State of a step; the first part is carried over to the next one.
struct UpdateState {
  ScaleState scale;
  int64_t applied = 0;  // steps
  float used_scale = 1;
  float inverse = 1, clip = 1;  // 1 / used_scale; the norm's clipping coefficient
  double norm = 0;              // of the unscaled gradients
  double lr = 0;
  double lr_scale = 1;                     // factor for the rates of later steps
  double step_scalars[kStepScalars] = {};  // Element::begin_step
  double ascent = 0;                       // SAM's factor for the unscaled gradients
  int32_t ascent_found_inf = 0;
  int32_t found_inf = 0;
  float keeps[kMaxAverages] = {};    // of the averages of the weights (AverageRule)
  double momentum = 0;               // set if a schedule cycles it
  double terms[kMaxLossTerms] = {};  // sums over the accumulation step
  int64_t index_flag = 0;            // nonzero: an index was out of bounds; take() then throws
};

// Loss terms of a training micro-batch: the seed with which backward starts, and the sums of the terms.
class LossTerms {
 public:
  virtual ~LossTerms() = default;
  virtual void seed(size_t i, const Tensor& input) = 0;    // before the run; not called if term i has no gradient
  virtual void add_term(size_t i, const Tensor& sum) = 0;  // after the run
};

class DeviceUpdate : public LossTerms {
 public:
  virtual void set_copies(const std::vector<ParamCache::Copy>& copies) = 0;  // called when Programs have been added
  // share: the fraction of the step's rows that belongs to this rank.
  virtual void begin(const std::vector<double>& coefficients, double share = 1) = 0;
  // Called when all H v of a step have been added to UpdateSpec::curvature.
  virtual void average_curvature() = 0;
  virtual void perturb() = 0;
  virtual void restore() = 0;
  virtual void apply() = 0;
  virtual std::optional<UpdateState> take(bool wait) = 0;  // empty: none is available (yet)
  virtual int64_t pending() const = 0;                     // applied but not yet taken

  // Everything that a checkpoint stores. Each call waits for the device.
  virtual UpdateState state() = 0;
  virtual void set_state(const ScaleState& scale, int64_t applied) = 0;
  virtual void set_step_scalars(const double (&step_scalars)[kStepScalars]) = 0;  // for a rule with persistent scalars
  virtual void set_lr_scale(double scale) = 0;                                    // factor for the schedule's rates
  enum class Moment : uint8_t { m, v, u, slow, ema };  // ema: the first average; others follow
  static constexpr Moment average(int k) { return static_cast<Moment>(static_cast<int>(Moment::ema) + k); }
  virtual std::optional<Tensor> moment(Moment which) = 0;  // (elements), on the device; empty if not kept
  // State with a layout that differs from the parameters' (8-bit moments, state of tensor-wise optimizers), by
  // name, on the device.
  virtual std::vector<std::pair<std::string, Tensor>> own_state() = 0;
};

}  // namespace amp
