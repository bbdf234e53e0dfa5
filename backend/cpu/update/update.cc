// DeviceUpdate on the CPU (backend/update.h): runs the optimizer's passes, sums over ranks, statistics, the loss scale,
// and the refresh of 16-bit copies, in this order. Each call returns when its work is done.

#include "backend/cpu/update/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/update/optimizer.h"
#include "backend/device.h"

namespace amp {

namespace {

double value_of(const Tensor& t) {
  float x = 0;
  if (t.dtype == DType::f64) return *t.as<double>();
  convert(t.dtype, t.data, DType::f32, &x, 1);
  return static_cast<double>(x);
}

class CpuUpdate final : public DeviceUpdate {
 public:
  explicit CpuUpdate(const UpdateSpec& spec)
      : spec_(spec), optimizer_(spec.optimizer, spec.spans, spec.elements, spec.params, spec.own) {}

  void set_copies(const std::vector<ParamCache::Copy>& copies) override {
    refresh_.clear();
    for (const ParamCache::Copy& c : copies) {
      const float* from = source_of(c.slot);
      if (!from) continue;  // the parameter is frozen
      const Tensor source{const_cast<float*>(from), DType::f32, c.tensor.dims};
      refresh_.push_back(c.row == 0 ? cpu_device().convert(source, c.tensor)
                                    : cpu_device().convert_rows(source, c.tensor, c.row, c.pitch));
    }
  }

  void begin(const std::vector<double>& coefficients, double share) override {
    coefficients_ = coefficients;
    share_ = static_cast<float>(share);
    std::fill(std::begin(state_.terms), std::end(state_.terms), 0.0);
  }
  void seed(size_t i, const Tensor& input) override {
    const double seed = static_cast<double>(state_.scale.scale) * coefficients_.at(i);
    if (input.data) convert(DType::f64, &seed, input.dtype, input.data, 1);
  }
  void add_term(size_t i, const Tensor& sum) override { state_.terms[i] += value_of(sum); }

  void average_curvature() override {
    sum_over_ranks({elements(spec_.curvature)});
    optimizer_.average_curvature(spec_.curvature);
  }
  void perturb() override {
    sum_over_ranks({elements(spec_.grads)});
    state_.ascent_found_inf |=
        optimizer_.perturb(spec_.params, spec_.grads, static_cast<double>(state_.scale.scale)) ? 0 : 1;
    for (const Kernel& refresh : refresh_) refresh();
  }
  void restore() override {
    optimizer_.restore(spec_.params);
    for (const Kernel& refresh : refresh_) refresh();
  }

  void apply() override {
    check(!done_, "a step is taken before the next one");
    sum_over_ranks(step_sums(share_));
    const double scale = static_cast<double>(state_.scale.scale);
    state_.used_scale = state_.scale.scale;
    state_.lr = spec_.lr ? spec_.lr(optimizer_.steps()) * state_.lr_scale : 0;
    if (spec_.momentum) optimizer_.set_momentum(spec_.momentum(optimizer_.steps()));
    optimizer_.add_noise(spec_.grads, scale);
    GradStats stats = optimizer_.inspect(spec_.grads, scale, spec_.curvature);
    stats.found_inf |= !statistics_finite();  // statistics may overflow although all gradients are finite
    stats.found_inf |= std::exchange(state_.ascent_found_inf, 0) != 0;
    if (optimizer_.transforms_gradients() && !stats.found_inf)
      optimizer_.transform_gradients(spec_.params, spec_.grads, scale);
    if (optimizer_.apply(spec_.params, spec_.grads, scale, stats, state_.lr, spec_.curvature)) {
      if (spec_.gather) spec_.gather();
      for (const UpdateSpec::Statistic& s : spec_.statistics)
        std::memcpy(s.committed, s.staged, static_cast<size_t>(s.count) * sizeof(float));
      for (const Kernel& refresh : refresh_) refresh();
    }
    state_.norm = stats.norm;
    state_.found_inf = stats.found_inf ? 1 : 0;
    state_.applied = optimizer_.steps();
    std::copy(std::begin(optimizer_.step_scalars()), std::end(optimizer_.step_scalars()),
              std::begin(state_.step_scalars));
    step_scale(spec_.scale, state_.scale, stats.found_inf);
    done_ = state_;
  }
  std::optional<UpdateState> take(bool) override { return std::exchange(done_, std::nullopt); }
  int64_t pending() const override { return done_ ? 1 : 0; }

  UpdateState state() override { return state_; }
  void set_state(const ScaleState& scale, int64_t applied) override {
    state_.scale = scale;
    state_.applied = applied;
    optimizer_.set_steps(applied);
  }
  void set_step_scalars(const double (&step_scalars)[kStepScalars]) override {
    std::copy(std::begin(step_scalars), std::end(step_scalars), std::begin(optimizer_.step_scalars()));
    std::copy(std::begin(step_scalars), std::end(step_scalars), std::begin(state_.step_scalars));
  }
  void set_lr_scale(double scale) override { state_.lr_scale = scale; }
  std::vector<std::pair<std::string, Tensor>> own_state() override {
    std::vector<std::pair<std::string, Tensor>> out;
    for (const auto& [name, t] : optimizer_.own_state())
      out.emplace_back(name, Tensor{t->mutable_data(), t->dtype(), t->dims()});
    return out;
  }
  std::optional<Tensor> moment(Moment which) override {
    float* const p = optimizer_.moment(which);
    if (!p) return {};
    return Tensor{p, DType::f32, {optimizer_.own().count}};
  }

 private:
  Tensor elements(float* data) const { return {data, DType::f32, {spec_.elements}}; }
  void sum_over_ranks(const std::vector<Tensor>& data) {
    if (spec_.ranks) spec_.ranks->sum(data);
  }
  // Returns the tensors that are summed over ranks; none for a single rank. Multiplies the statistics by this rank's
  // share of the rows first, so that their sum is the mean over all rows.
  std::vector<Tensor> step_sums(float share) {
    std::vector<Tensor> out;
    if (!spec_.ranks) return out;
    for (const UpdateSpec::Statistic& s : spec_.statistics) {
      float* const staged = s.staged;
      for (int64_t i = 0; i < s.count; ++i) staged[i] *= share;
      out.push_back({staged, DType::f32, {s.count}});
    }
    out.push_back(elements(spec_.grads));
    out.push_back({state_.terms, DType::f64, {spec_.terms}});
    return out;
  }
  // Returns the fp32 parameter with this slot (ParamCache); null if the optimizer does not update it.
  const float* source_of(int slot) const {
    for (const UpdateSpan& s : spec_.spans) {
      if (s.slot == slot) return spec_.params + s.begin;
    }
    for (const UpdateSpec::Statistic& s : spec_.statistics) {
      if (s.slot == slot) return s.committed;
    }
    return nullptr;
  }
  bool statistics_finite() const {
    return std::all_of(spec_.statistics.begin(), spec_.statistics.end(), [](const UpdateSpec::Statistic& s) {
      return std::all_of(s.staged, s.staged + s.count, [](float x) { return std::isfinite(x); });
    });
  }

  UpdateSpec spec_;
  Optimizer<float> optimizer_;
  UpdateState state_;
  std::vector<double> coefficients_;
  float share_ = 1;
  std::vector<Kernel> refresh_;
  std::optional<UpdateState> done_;
};

}  // namespace

std::unique_ptr<DeviceUpdate> make_cpu_update(const UpdateSpec& spec) { return std::make_unique<CpuUpdate>(spec); }

}  // namespace amp
