// DeviceUpdate: the end of an optimizer step, executed by the device that computed the gradients. Loss scale, step
// count, learning rate and the decision to skip a step are stored in the device's memory, so the host does not wait for
// a GPU within a step. Results are read later. On the CPU a step is finished when apply() returns.
//
//   begin(coefficients)   starts a step: clears the loss sums and stores the coefficient of each loss term
//   seed(i, input)        before each micro-batch: writes scale * coefficient, the gradient of loss term i
//   add_term(i, sum)      after each micro-batch: adds to the sum of loss term i
//   perturb(), restore()  SAM: moves the weights along the gradients for a second pass, and back before apply()
//   apply()               sums gradients over the ranks, checks that they are finite, and computes their norm. If all
//                         are finite, it unscales and clips them and updates weights, moments, EMA, 16-bit copies
//                         and running statistics. It updates the loss scale in both cases.
//   take()                returns the result of the oldest step that has not been taken yet
//
// The formula that updates one element is an update rule (backend/update_rule.h).
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
constexpr int kMaxAverages = 4;  // maximal number of averages of the weights
// Elements in a block of 8-bit moments, and in the smallest tensor that has 8-bit moments.
constexpr int64_t kQuantizedBlock = 256, kLeastQuantized = 4096;

enum class ClipMode : uint8_t { norm2, norm_inf, value, adaptive };
// Parses "norm", "inf", "value" or "agc". Throws a usage error for another name.
ClipMode clip_mode_from_name(const std::string& name);
// Returns the name if a rule has it. Throws a usage error otherwise.
std::string update_rule_from_name(const std::string& name);

std::vector<RuleKey> rule_keys(std::string_view rule);  // returns the settings that the rule has
// Returns the rule's defaults, overridden by the given keys. Throws E_FLAG_VALUE (Exit::usage) for a key that the rule
// does not have.
RuleSettings rule_settings(const std::string& rule, const std::map<std::string, double>& given);

// Returns the setting that cyclic momentum (one-cycle schedule) changes, as in torch: beta1 if the rule has it,
// otherwise momentum. Throws a usage error for a rule with neither, and for tensor-wise optimizers.
double RuleSettings::*cycled_key(const std::string& rule);

struct UpdateSpan;

struct OptimizerConfig {
  std::string rule = "adamw";  // a row of backend/update_rules.h
  RuleSettings settings;
  double weight_decay = 0;
  ClipMode clip_mode = ClipMode::norm2;
  // Bound for clipping; 0: no clipping. In mode value it bounds each element. In mode adaptive it bounds the norm of
  // each unit's gradient, as a multiple of the norm of the unit's weights.
  double max_grad_norm = 0;
  bool centralize = false;  // uses gradient centralization (Yong et al. 2020, arXiv:2004.01461)
  // Decays of the moving averages of the weights, at most kMaxAverages. With SWA there is one average, and these
  // decays are not used.
  std::vector<double> ema_decays;
  int64_t ema_every = 1;
  bool ema_warmup = false;
  int64_t swa_start = -1;
  double gradient_noise = 0;  // eta of backend/gradient_noise.h; 0: no noise
  uint64_t noise_seed = 0;
  // Lookahead (Zhang et al. 2019, arXiv:1907.08610): every `lookahead` steps, slow weights move by
  // `lookahead_alpha` towards the weights, and the weights continue from there. 0: none.
  int64_t lookahead = 0;
  double lookahead_alpha = 0.5;
  double sam_rho = 0;       // rho of sharpness-aware minimization (Foret et al. 2021, arXiv:2010.01412); 0: none
  int64_t state_bits = 32;  // 8: block-wise quantized moments (backend/cpu/update/quantized.h)
  // ZeRO stage 1 (Rajbhandari et al. 2020, arXiv:1910.02054): the number of ranks that divide moments and averages;
  // each rank updates its shard. 1: not sharded.
  int64_t shards = 1;

  // Throws a usage error that names the flag and its range.
  void validate() const;
  int moments() const;  // number of moments that the rule keeps
  bool sharded() const { return shards > 1; }
  // Returns the bytes of moments, averages, saved copies of weights, and the curvature estimate.
  int64_t state_bytes(const std::vector<UpdateSpan>& spans, int64_t elements) const;
  int averages() const { return swa_start >= 0 ? 1 : static_cast<int>(ema_decays.size()); }
  AverageRule average_rule(int k) const;
  // Returns the name of average k in checkpoints: "ema" for the first, "ema:0.999" for others.
  std::string average_name(int k) const;
  bool quantized() const { return state_bits == 8; }
  // True if the gradients of some span are transformed per unit before the rule receives them.
  bool transforms_gradients(const std::vector<UpdateSpan>& spans) const;
  double clip_bound(const UpdateSpan& span) const;  // bound of the span's clip group
  // Returns max_grad_norm in mode value, otherwise infinity.
  double element_limit(const UpdateSpan& span) const;
  bool needs_hessian_diagonal() const;  // true if the rule uses an estimate of the Hessian's diagonal
  bool samples_labels() const;          // true if that estimate needs gradients for labels sampled from the model
  bool has_evaluated_weights() const;   // true if the evaluated weights differ from the trained ones
  bool keeps_step_scalars() const;      // true if the rule has scalars that persist from step to step
  bool tensor_wise() const;             // true if the rule is a tensor-wise optimizer
};

// Converts trained weights in place to the weights that are evaluated and exported. Changes nothing unless the rule has
// evaluated(). m: the rule's first moment, one number per element of params.
void convert_to_evaluated(const OptimizerConfig& optimizer, float* params, const float* m, int64_t count);

// A range of trained elements within the parameters, with its own settings.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  std::optional<double> weight_decay;  // replaces the optimizer's weight decay
  double lr_factor = 1;                // factor for the schedule's learning rate
  int slot = -1;
  int64_t kernel = 1;  // elements of one convolution kernel; they are contiguous
  // Elements of a unit: the contiguous weights of one output (timm's unitwise_norm). 0: the whole tensor is one unit.
  int64_t unit = 0;
  bool matrix = false;       // the tensor has rank 2 or more
  Dims dims{};               // shape of the tensor, for tensor-wise optimizers
  bool elementwise = false;  // a tensor-wise optimizer updates this matrix as it updates vectors
  // Spans of one group are clipped together, to max_grad_norm. Group 0 has the spans that no other group has, and is
  // clipped to the optimizer's max_grad_norm.
  int clip_group = 0;
  double max_grad_norm = 0;
  int64_t from_step = 0;  // the span is frozen until this many steps have been applied
};

struct UpdateSpec {
  OptimizerConfig optimizer;
  ScaleRule scale;
  std::function<double(int64_t)> lr;  // the schedule's learning rate after this many applied steps
  // The schedule's momentum (beta1 for a rule that has beta1), by applied steps. Set only if a schedule cycles it.
  std::function<double(int64_t)> momentum;
  int64_t max_steps = 0;  // a device may tabulate lr for steps up to this one; later steps then use the last value
  std::vector<UpdateSpan> spans;  // the trained ranges of the `elements` below
  float* params = nullptr;        // this and all other pointers are to the device's memory
  float* grads = nullptr;
  float* curvature = nullptr;  // the estimate of the Hessian's diagonal, for a rule that uses it
  // Number of elements in the trained part of params, moments and EMA, including the zero padding after each tensor
  // (FlatLayout::kAlign).
  int64_t elements = 0;
  // For a sharded optimizer: the shard whose moments are kept and whose weights are updated here. `gather` is called in
  // every applied step and collects the other ranks' shards of params.
  std::optional<ElementRange> own;
  std::function<void()> gather;
  // With several ranks, each of which computes a part of the step's rows: sums gradients, curvature, statistics and
  // loss terms over the ranks before they are used. Null for one rank.
  DeviceCommunicator* ranks = nullptr;

  struct Statistic {
    float* committed = nullptr;
    float* staged = nullptr;
    int64_t count = 0;
    int slot = -1;
  };
  std::vector<Statistic> statistics;
  int terms = 1;  // number of loss terms, at most kMaxLossTerms
};

// State of a step. The first members are carried over to the next step.
struct UpdateState {
  ScaleState scale;
  int64_t applied = 0;  // number of applied steps
  float used_scale = 1;
  float inverse = 1, clip = 1;  // inverse: 1 / used_scale; clip: coefficient of norm clipping
  double norm = 0;              // norm of the unscaled gradients
  double lr = 0;
  double lr_scale = 1;                     // factor for the learning rates of later steps
  double step_scalars[kStepScalars] = {};  // written by the rule's begin_step()
  double ascent = 0;                       // SAM: factor that turns unscaled gradients into the step of the weights
  int32_t ascent_found_inf = 0;
  int32_t found_inf = 0;
  float keeps[kMaxAverages] = {};    // decay of each average of the weights (AverageRule)
  double momentum = 0;               // set only if a schedule cycles it
  double terms[kMaxLossTerms] = {};  // sums of the loss terms over the accumulation step
  int64_t index_flag = 0;            // nonzero if an index was out of bounds; take() then throws
};

// Loss terms of a training micro-batch.
class LossTerms {
 public:
  virtual ~LossTerms() = default;
  // Writes the gradient of loss term i, with which backward starts. Called before the run, unless term i has no
  // gradient.
  virtual void seed(size_t i, const Tensor& input) = 0;
  // Adds the computed sum of loss term i to the step's. Called after the run.
  virtual void add_term(size_t i, const Tensor& sum) = 0;
};

class DeviceUpdate : public LossTerms {
 public:
  // Sets the 16-bit copies that are refreshed when weights change. Called when Programs have been added.
  virtual void set_copies(const std::vector<ParamCache::Copy>& copies) = 0;
  // Starts a step. share: the fraction of the step's rows that this rank computes.
  virtual void begin(const std::vector<double>& coefficients, double share = 1) = 0;
  // Completes the estimate in UpdateSpec::curvature: sums it over the ranks and, if the rule asks for it, averages it
  // over each convolution kernel. Called after all products H v of the step have been added to it.
  virtual void average_curvature() = 0;
  virtual void perturb() = 0;
  virtual void restore() = 0;
  virtual void apply() = 0;
  // Returns the result of the oldest applied step that has not been taken. Empty if there is none, or without `wait` if
  // the device has not finished it.
  virtual std::optional<UpdateState> take(bool wait) = 0;
  virtual int64_t pending() const = 0;  // number of steps that were applied but not yet taken

  // Access the state that a checkpoint stores. Each call waits for the device.
  virtual UpdateState state() = 0;
  virtual void set_state(const ScaleState& scale, int64_t applied) = 0;
  // Called only for a rule with persistent scalars.
  virtual void set_step_scalars(const double (&step_scalars)[kStepScalars]) = 0;
  virtual void set_lr_scale(double scale) = 0;         // sets a factor for the schedule's learning rates
  enum class Moment : uint8_t { m, v, u, slow, ema };  // ema: the first average; average(k) is the k-th
  static constexpr Moment average(int k) { return static_cast<Moment>(static_cast<int>(Moment::ema) + k); }
  // Returns a moment or an average as a vector in the device's memory. Empty if it is not kept.
  virtual std::optional<Tensor> moment(Moment which) = 0;
  // Returns the state whose layout differs from the parameters' (8-bit moments, state of tensor-wise optimizers): names
  // and tensors in the device's memory.
  virtual std::vector<std::pair<std::string, Tensor>> own_state() = 0;
};

}  // namespace amp
