// DeviceUpdate: the end of a step, by the device that computed its gradients. Loss scale, step count, learning rate and
// every decision live in the device's memory, so that the host of a GPU never waits in a step, overflow or not; what
// happened is read later. On the CPU a step is over when apply() returns.
//
//   begin(coefficients)   the window's loss sums are cleared; backward starts at scale * coefficient
//   seed(i, input)        before each micro-batch
//   add_term(i, sum)      after each micro-batch
//   perturb(), restore()  SAM: the weights move up the gradients for a second pass, and back before apply()
//   apply()               sums over the ranks; finite check and norm; then, unless something is not finite: unscale,
//                         clip, weights, moments, EMA, 16-bit copies, running statistics; the loss scale moves either
//                         way
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

#include "backend/device_ranks.h"
#include "backend/program.h"
#include "backend/update_rule.h"
#include "base/average_rule.h"
#include "base/scale_rule.h"

namespace amp {

constexpr int kMaxLossTerms = 16;
constexpr int kMaxAverages = 4;                                   // of the weights
constexpr int64_t kQuantisedBlock = 256, kLeastQuantised = 4096;  // elements: of a block of 8-bit moments, of a tensor

enum class ClipMode : uint8_t { norm2, norm_inf, value, adaptive };
ClipMode clip_mode_from_name(const std::string& name);       // "norm", "inf", "value", "agc"; usage error
std::string update_rule_from_name(const std::string& name);  // the name, if there is such a rule; usage error

std::vector<RuleKey> rule_keys(std::string_view rule);  // what it may be set to
// The rule's defaults with what is given, by the names of its keys. Usage error (E_FLAG_VALUE) for a key that it lacks.
RuleSettings rule_settings(const std::string& rule, const std::map<std::string, double>& given);

// The key of a rule that one-cycle's momentum moves, as torch's: beta1, else momentum. Usage error for a rule that has
// neither, or is one of whole tensors.
double RuleSettings::*cycled_key(const std::string& rule);

struct UpdateSpan;

struct OptimizerConfig {
  std::string rule = "adamw";  // a row of backend/update_rules.h
  RuleSettings settings;
  double weight_decay = 0;
  ClipMode clip_mode = ClipMode::norm2;
  // 0: no clipping; in mode value the bound of an element, in mode adaptive that of a unit in multiples of its weights
  double max_grad_norm = 0;
  bool centralize = false;  // gradient centralization (Yong et al. 2020, arXiv:2004.01461)
  // Moving averages of the weights, one for each decay, at most kMaxAverages; or SWA's, which is the only one then.
  std::vector<double> ema_decays;
  int64_t ema_every = 1;
  bool ema_warmup = false;
  int64_t swa_start = -1;
  double gradient_noise = 0;  // eta (backend/gradient_noise.h); 0: none
  uint64_t noise_seed = 0;
  // Lookahead (Zhang et al. 2019, arXiv:1907.08610): every so many steps slow weights take `lookahead_alpha` of the way
  // to the weights, which go on from there. 0: none.
  int64_t lookahead = 0;
  double lookahead_alpha = 0.5;
  double sam_rho = 0;       // sharpness-aware minimization (Foret et al. 2021, arXiv:2010.01412); 0: none
  int64_t state_bits = 32;  // 8: moments by blocks (backend/cpu/update/quantised.h)
  // ZeRO stage 1 (Rajbhandari et al. 2020, arXiv:1910.02054): so many ranks keep the moments and averages of a share of
  // the elements each, and move these. 1: every rank all of them.
  int64_t shards = 1;

  void validate() const;  // usage error naming the flag and its range
  int moments() const;    // spans of state that the rule keeps
  bool sharded() const { return shards > 1; }
  // Of moments, averages, copies of weights, the estimate of curvature.
  int64_t state_bytes(const std::vector<UpdateSpan>& spans, int64_t elements) const;
  int averages() const { return swa_start >= 0 ? 1 : static_cast<int>(ema_decays.size()); }
  AverageRule average_rule(int k) const;
  std::string average_name(int k) const;  // in checkpoints: "ema" is the first one, "ema:0.999" another
  bool quantised() const { return state_bits == 8; }
  // Gradients of some span change unit by unit before the rule sees them.
  bool shapes_gradients(const std::vector<UpdateSpan>& spans) const;
  double clip_bound(const UpdateSpan& span) const;  // max_grad_norm of its group
  // What a gradient's element is cut to: in mode value; elsewhere infinity.
  double element_limit(const UpdateSpan& span) const;
  bool curved() const;               // the rule needs an estimate of the Hessian's diagonal
  bool draws_labels() const;         // for that estimate
  bool evaluated_elsewhere() const;  // than at the weights that train
  bool remembers() const;            // facts of its own, from step to step
  bool whole() const;                // the rule is one of whole tensors
};

// The weights that are evaluated and exported of a rule that has others than it trains: in place, from its first
// moment, which is the weights' neighbour element by element.
void move_to_evaluated(const OptimizerConfig& optimizer, float* params, const float* m, int64_t count);

// Elements of the parameters' span that train, with what is particular to them.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  std::optional<double> weight_decay;  // in the place of the optimizer's
  double lr_factor = 1;                // times the schedule's rate
  int slot = -1;
  int64_t kernel = 1;  // elements of a convolution's kernel, which lie side by side
  // Elements of a unit, the weights of one output (timm's unitwise_norm), side by side; of a vector all. 0: all.
  int64_t unit = 0;
  bool matrix = false;       // rank 2 or more
  Dims dims{};               // for rules of whole tensors
  bool elementwise = false;  // a rule of matrices moves it as it moves vectors
  // Gradients are clipped by the norm of their group's, to max_grad_norm; group 0: of all that have no other, to the
  // optimizer's.
  int clip_group = 0;
  double max_grad_norm = 0;
  int64_t from_step = 0;  // applied steps before which it stays as it is, and its gradient counts for nothing
};

struct UpdateSpec {
  OptimizerConfig optimizer;
  ScaleRule scale;
  std::function<double(int64_t)> lr;  // by applied steps before this one
  // Where a schedule cycles it: momentum, or beta1 of a rule that has that.
  std::function<double(int64_t)> momentum;
  int64_t max_steps = 0;          // a device may tabulate lr up to here; the last one stands for all that follow
  std::vector<UpdateSpan> spans;  // of the elements below, which train
  float* params = nullptr;        // on the device, as all pointers here
  float* grads = nullptr;
  float* curvature = nullptr;  // of a rule that needs it: the estimate of the Hessian's diagonal
  int64_t elements = 0;        // of params, moments and EMA that train, gaps (zeros) included
  // Of a sharded optimizer: whose moments are kept here and what is moved here; the rest of params comes by `gather`,
  // called in every step that is applied.
  std::optional<ElementRange> own;
  std::function<void()> gather;
  // Of several ranks, which have a share of the window each: gradients, curvature, statistics and loss sums become
  // those of all before anything is made of them. Null: one rank.
  DeviceRanks* ranks = nullptr;

  struct Statistic {
    float* committed = nullptr;
    float* staged = nullptr;
    int64_t count = 0;
    int slot = -1;
  };
  std::vector<Statistic> statistics;
  int terms = 1;  // loss terms, at most kMaxLossTerms
};

// Of a step; the first part is what goes on to the next one.
struct UpdateState {
  ScaleState scale;
  int64_t applied = 0;  // steps
  float used_scale = 1;
  float inverse = 1, clip = 1;  // 1 / used_scale; the norm's clipping coefficient
  double norm = 0;              // of the unscaled gradients
  double lr = 0;
  double lr_scale = 1;            // of the rates that follow
  double facts[kRuleFacts] = {};  // Element::once
  double ascent = 0;              // SAM's: of the unscaled gradients
  int32_t ascent_found_inf = 0;
  int32_t found_inf = 0;
  float keeps[kMaxAverages] = {};    // of the averages of the weights (AverageRule)
  double momentum = 0;               // where a schedule cycles it
  double terms[kMaxLossTerms] = {};  // sums over the window
  int64_t index_flag = 0;            // not 0: an index was out of bounds; whoever takes the step is told by an error
};

// What a training micro-batch is told and what it tells: where backward starts, the sums of its loss terms.
class LossTerms {
 public:
  virtual ~LossTerms() = default;
  virtual void seed(size_t i, const Tensor& input) = 0;    // before it runs; not asked where term i has no gradient
  virtual void add_term(size_t i, const Tensor& sum) = 0;  // after it ran
};

class DeviceUpdate : public LossTerms {
 public:
  virtual void set_copies(const std::vector<ParamCache::Copy>& copies) = 0;  // when Programs have been added
  // share: of the window's rows that are this rank's.
  virtual void begin(const std::vector<double>& coefficients, double share = 1) = 0;
  // New H v of a window have been added up in UpdateSpec::curvature.
  virtual void average_curvature() = 0;
  virtual void perturb() = 0;
  virtual void restore() = 0;
  virtual void apply() = 0;
  virtual std::optional<UpdateState> take(bool wait) = 0;  // empty: none is there (yet)
  virtual int64_t pending() const = 0;                     // applied and not taken

  // All that a checkpoint keeps; each waits for the device.
  virtual UpdateState state() = 0;
  virtual void set_state(const ScaleState& scale, int64_t applied) = 0;
  virtual void set_facts(const double (&facts)[kRuleFacts]) = 0;  // of a rule that remembers
  virtual void set_lr_scale(double scale) = 0;                    // the schedule's rates are multiplied by it
  enum class Moment : uint8_t { m, v, u, slow, ema };             // ema: the first average; more follow
  static constexpr Moment average(int k) { return static_cast<Moment>(static_cast<int>(Moment::ema) + k); }
  virtual std::optional<Tensor> moment(Moment which) = 0;  // (elements), on the device; empty when not kept
  // State that is not laid out like the parameters (moments in 8 bits, that of rules of whole tensors), by name, on the
  // device.
  virtual std::vector<std::pair<std::string, Tensor>> own_state() = 0;
};

}  // namespace amp
