// DeviceUpdate: the end of a step on a device that computes for itself. Loss scale, step count, learning rate and every
// decision live in the device's memory, so that the host never waits in a step, overflow or not; what happened is read
// later.
//
//   begin(coefficients)     the window's loss sums are cleared; backward starts at scale * coefficient
//   seed(i, input)          before each micro-batch
//   add_term(i, sum)        after each micro-batch
//   apply()                 finite check and norm; then, unless something is not finite: unscale, clip, weights,
//   moments, EMA,
//                           16-bit copies, running statistics; the loss scale moves either way
//   take()                  the oldest step not yet taken
//
// The arithmetic is base/update_rules.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/program.h"
#include "base/update_rules.h"

namespace amp {

constexpr int kMaxLossTerms = 16;

struct UpdateSpec {
  enum class Method : uint8_t { sgd, adam, adamw };
  enum class Clip : uint8_t { none, norm2, norm_inf, value };
  Method method = Method::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  Clip clip = Clip::none;
  bool report_inf_norm = false;  // the norm that is reported, whether or not it clips
  double max_grad_norm = 0, ema_decay = 0;
  ScaleRule scale;
  std::vector<double> lr;  // by applied steps before this one; the last stands for all that follow

  struct Span {
    int64_t begin = 0, count = 0;
    bool decay = true;
    double lr_factor = 1;
    int slot = -1;
  };
  std::vector<Span> spans;  // of the elements below, which train
  float* params = nullptr;  // on the device, as all pointers here
  float* grads = nullptr;
  int64_t elements = 0;  // of params, moments and EMA that train, gaps (zeros) included

  struct Statistic {
    float* committed = nullptr;
    const float* staged = nullptr;
    int64_t count = 0;
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
  double lr = 0, bias1 = 1, bias2 = 1;
  int32_t found_inf = 0;
  double terms[kMaxLossTerms] = {};  // sums over the window
  int64_t index_flag = 0;            // not 0: an index was out of bounds; whoever takes the step is told by an error
};

class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;
  virtual void set_copies(const std::vector<ParamCache::Copy>& copies) = 0;  // when Programs have been added
  virtual void begin(const std::vector<double>& coefficients) = 0;
  virtual void seed(size_t i, const Tensor& input) = 0;
  virtual void add_term(size_t i, const Tensor& sum) = 0;
  virtual void apply() = 0;
  virtual std::optional<UpdateState> take(bool wait) = 0;  // empty: none is there (yet)
  virtual int64_t pending() const = 0;                     // applied and not taken

  // All that a checkpoint keeps; each waits for the device.
  virtual UpdateState state() = 0;
  virtual void set_state(const ScaleState& scale, int64_t applied) = 0;
  enum class Moment : uint8_t { m, v, ema };
  virtual std::optional<Tensor> moment(Moment which) = 0;  // (elements), on the device; empty when not kept
};

}  // namespace amp
