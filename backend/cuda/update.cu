// Implements DeviceUpdate (backend/update.h), the optimizer step, on CUDA. All launches of a step are recorded as a
// CUDA graph and replayed. The host does not wait for the steps. It reads their reports later from a ring buffer in
// pinned memory.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>

#include "backend/cuda/tensor_update.h"
#include "backend/cuda/update_layout.h"
#include "backend/cuda/update_quantized.cuh"
#include "backend/update.h"
#include "backend/update_rules.h"

namespace amp::cuda {

namespace {

using namespace update_kernels;

class Update final : public DeviceUpdate {
 public:
  Update(CudaDevice& device, const UpdateSpec& spec)
      : d_(device), spec_(spec), own_(spec.own.value_or(ElementRange{0, spec.elements})) {
    check(spec.terms <= kMaxLossTerms, cat("at most ", kMaxLossTerms, " loss terms on CUDA"));
    check(spec.elements % 4 == 0, "spans are padded");
    spec.optimizer.validate();
    allocate_state();
    if (const std::vector<Unit> units = units_of(spec); !units.empty()) {
      n_units_ = static_cast<int64_t>(units.size());
      units_ = upload(units);
    }
    if (const std::vector<double> bounds = clip_bounds(spec); !bounds.empty()) {
      n_groups_ = static_cast<int64_t>(bounds.size());
      bounds_ = upload(bounds);
      clips_ = d_.allocate(4 * n_groups_);
    }
    by_shards_ = n_groups_ > 0 ||
                 std::any_of(spec.spans.begin(), spec.spans.end(), [](const UpdateSpan& s) { return s.from_step > 0; });
    n_shards_ = static_cast<int64_t>(shards_of(spec, {}).size());
    state_ = upload(std::vector<UpdateState>(1));
    coefficients_ = d_.allocate(8 * (kMaxLossTerms + 1));
    blocks_ = std::clamp<int64_t>(spec.elements / (4 * kThreads), 1, int64_t{d_.multiprocessors()} * 8);
    parts_ = d_.allocate(static_cast<int64_t>(sizeof(Part)) * n_parts());
    tabulate();
    counts_ = d_.allocate(8);
    ring_ = d_.allocate_shared(static_cast<int64_t>(sizeof(UpdateState)) * kRing + 64);
    seen_ = reinterpret_cast<volatile int64_t*>(static_cast<char*>(ring_.get()) + sizeof(UpdateState) * kRing);
    *seen_ = 0;
    set_copies({});
  }

  ~Update() override {  // waits for steps that still write into ring_
    try {
      d_.synchronize();
    } catch (...) {
    }
  }

  void set_copies(const std::vector<ParamCache::Copy>& copies) override {
    recording_.reset();
    ran_ = false;
    const std::vector<Shard> shards = shards_of(spec_, copies);
    const std::vector<Statistic> statistics = statistics_of(spec_, copies);
    if (n_shards_ > 0) shards_ = upload(shards);
    const std::vector<Shard> moved = spec_.own ? shards_within(shards, own_) : shards;
    n_moved_ = static_cast<int64_t>(moved.size());
    if (n_moved_ > 0) moved_ = spec_.own ? upload(moved) : shards_;
    if (n_shards_ > 0 && rule_needs_norms(spec_.optimizer.rule, spec_.optimizer.settings)) {
      first_shard_ = upload(first_shards(shards, spec_.spans.size()));
      measured_ = d_.allocate(static_cast<int64_t>(sizeof(NormTerms<double>)) * n_shards_);
      norms_ = d_.allocate(static_cast<int64_t>(sizeof(NormTerms<double>) * spec_.spans.size()));
    }
    if (!statistics.empty()) statistics_ = upload(statistics);
  }

  void begin(const std::vector<double>& coefficients, double share) override {
    check(static_cast<int>(coefficients.size()) <= kMaxLossTerms,
          cat("at most ", kMaxLossTerms, " loss terms on CUDA"));
    std::vector<double> values = coefficients;
    values.resize(kMaxLossTerms);
    values.push_back(share);
    d_.upload(coefficients_.get(), values.data(), static_cast<int64_t>(values.size()) * 8);
    for_each(d_, kMaxLossTerms, ClearTerms{on_device()});
  }
  void seed(size_t i, const Tensor& input) override {
    for_each(d_, 1, Seed{on_device(), static_cast<const double*>(coefficients_.get()) + i, input});
  }
  void add_term(size_t i, const Tensor& sum) override {
    for_each(d_, 1, AddTerm{on_device(), static_cast<int>(i), sum});
  }

  void average_curvature() override {
    if (spec_.ranks) spec_.ranks->sum({elements(spec_.curvature)});
    if (spec_.optimizer.settings.average_kernels == 0) return;
    for (const UpdateSpan& s : spec_.spans) {
      if (s.kernel > 1) for_each(d_, s.count / s.kernel, AverageKernels{spec_.curvature + s.begin, s.kernel});
    }
  }
  void perturb() override {
    if (spec_.ranks) spec_.ranks->sum({elements(spec_.grads)});
    auto* parts = static_cast<Part*>(parts_.get());
    inspect(spec_.grads, parts, true);
    launch(d_, {1, kThreads, 256}, DecideAscent{on_device(), parts, inspected(), spec_.optimizer.sam_rho});
    displace(spec_.grads);
  }
  void restore() override { displace(nullptr); }

  void apply() override {
    if (asked_ - read_ >= kRing) {  // the ring is full: the new report would overwrite the oldest
      d_.synchronize();
      drain();
    }
    ++asked_;
    submit();
    d_.pace(kAhead);
  }

  std::optional<UpdateState> take(bool wait) override {
    drain();
    if (reports_.empty() && wait && asked_ > read_) {
      d_.synchronize();
      drain();
      check(!reports_.empty(), "a step's report did not arrive");
    }
    if (reports_.empty()) return {};
    const UpdateState s = reports_.front();
    reports_.pop_front();
    d_.check_index_flag(s.index_flag);
    return s;
  }
  int64_t pending() const override { return asked_ - read_ + static_cast<int64_t>(reports_.size()); }

  UpdateState state() override {
    UpdateState s;
    d_.download(&s, state_.get(), sizeof s);
    return s;
  }
  void set_state(const ScaleState& scale, int64_t applied) override {
    UpdateState s = state();
    s.scale = scale;
    s.applied = applied;
    d_.upload(state_.get(), &s, sizeof s);
  }
  void set_step_scalars(const double (&step_scalars)[kStepScalars]) override {
    UpdateState s = state();
    std::copy(std::begin(step_scalars), std::end(step_scalars), std::begin(s.step_scalars));
    d_.upload(state_.get(), &s, sizeof s);
  }
  void set_lr_scale(double scale) override {
    UpdateState s = state();
    s.lr_scale = scale;
    d_.upload(state_.get(), &s, sizeof s);
  }
  std::optional<Tensor> moment(Moment which) override {
    if (which >= Moment::ema) {
      const int k = static_cast<int>(which) - static_cast<int>(Moment::ema);
      if (k >= spec_.optimizer.averages()) return {};
      return Tensor{floats(averages_) + k * own_.count, DType::f32, {own_.count}};
    }
    const DeviceMemory& memory = which == Moment::m ? m_ : which == Moment::v ? v_ : which == Moment::u ? u_ : slow_;
    if (!memory) return {};
    return Tensor{memory.get(), DType::f32, {own_.count}};
  }
  std::vector<std::pair<std::string, Tensor>> own_state() override {
    if (tensors_) return tensors_->state();
    std::vector<std::pair<std::string, Tensor>> out;
    for (size_t i = 0; i < quantized_.size(); ++i) {
      const auto names = QuantizedLayout::names(static_cast<int>(i));
      const Quantized& q = quantized_[i];
      out.emplace_back(names[0], Tensor{q.codes.get(), DType::u8, {quantized_at_->codes}});
      out.emplace_back(names[1], Tensor{q.largest.get(), DType::f32, {quantized_at_->blocks}});
      out.emplace_back(names[2], Tensor{q.wide.get(), DType::f32, {quantized_at_->wide}});
    }
    return out;
  }

 private:
  static constexpr int64_t kRing = 64;
  // The number of steps that the host may enqueue ahead of the device. Three keep the device busy. More would delay the
  // reports, which would make step times uneven and delay the reaction to stop signals.
  static constexpr int kAhead = 3;

  struct Quantized {
    DeviceMemory map, codes, largest, wide;
    QuantizedSpans spans() const {
      return {floats(map), static_cast<uint8_t*>(codes.get()), floats(largest), floats(wide)};
    }
  };

  void allocate_state() {
    const OptimizerConfig& o = spec_.optimizer;
    const int64_t bytes = own_.count * 4, least = std::max<int64_t>(bytes, 4);  // a shard may be empty
    if (o.tensor_wise()) tensors_.emplace(d_, spec_);
    if (o.quantized()) {
      quantized_at_.emplace(spec_.spans);
      places_ = upload(quantized_at_->places);
      for (int i = 0; i < o.moments(); ++i) {
        const auto& map = dynamic_map(i == 0);
        const std::vector<uint8_t> zeros(static_cast<size_t>(quantized_at_->codes), code_of_zero(i == 0));
        quantized_.push_back({upload(std::vector(map.begin(), map.end())), upload(zeros),
                              d_.allocate(quantized_at_->blocks * 4), d_.allocate(quantized_at_->wide * 4)});
      }
    } else {
      DeviceMemory* const moments[] = {&m_, &v_, &u_};
      for (int i = 0; i < o.moments(); ++i) *moments[i] = d_.allocate(least);
    }
    if (o.averages() > 0) averages_ = d_.allocate(least * o.averages());
    if (o.lookahead > 0) slow_ = d_.allocate(least);
    if (o.sam_rho > 0) kept_ = d_.allocate(spec_.elements * 4);
    const float* const params = spec_.params + own_.begin;
    for (int k = 0; k < o.averages(); ++k) d_.copy(floats(averages_) + k * own_.count, params, bytes);
    if (slow_) d_.copy(slow_.get(), params, bytes);
  }

  void tabulate() {
    std::vector<double> lr, momentum;
    for (int64_t t = 0; t <= spec_.max_steps; ++t) {
      lr.push_back(spec_.lr ? spec_.lr(t) : 0);
      if (spec_.momentum) momentum.push_back(spec_.momentum(t));
    }
    n_lr_ = static_cast<int64_t>(lr.size());
    lr_ = upload(lr);
    if (!momentum.empty()) momentum_ = upload(momentum);
  }

  void submit() {
    if (recording_) return recording_->replay();
    if (ran_) {
      recording_ = d_.record([this] { launch_all(); });
      if (recording_) return recording_->replay();
    }
    launch_all();
    ran_ = true;
  }

  template <class T>
  DeviceMemory upload(const std::vector<T>& v) {
    const auto bytes = static_cast<int64_t>(v.size() * sizeof(T));
    DeviceMemory memory = d_.allocate(bytes);
    d_.upload(memory.get(), v.data(), bytes);
    return memory;
  }
  static float* floats(const DeviceMemory& memory) { return static_cast<float*>(memory.get()); }
  UpdateState* on_device() const { return static_cast<UpdateState*>(state_.get()); }
  int64_t n_statistics() const { return static_cast<int64_t>(spec_.statistics.size()); }
  int64_t inspected() const { return by_shards_ ? n_shards_ : blocks_; }  // number of Parts per inspection
  int64_t n_parts() const { return inspected() + n_statistics() + (spec_.curvature ? inspected() : 0); }
  int64_t blocks_of(int64_t shards) const { return std::min<int64_t>(shards, int64_t{d_.multiprocessors()} * 8); }
  int64_t shard_blocks() const { return blocks_of(n_shards_); }

  const Shard* shards() const { return static_cast<const Shard*>(shards_.get()); }
  // Shifts memory of own_ so that kernels can index it by an element's number among all elements. Null stays null.
  float* of_all(const DeviceMemory& memory) const { return memory ? floats(memory) - own_.begin : nullptr; }

  Tensor elements(float* data) const { return {data, DType::f32, {spec_.elements}}; }

  // All-reduces gradients, loss terms and staged statistics over the ranks. The launches are recorded with the step.
  void sum_over_ranks() {
    if (!spec_.ranks) return;
    launch(d_, {n_statistics(), kThreads, 0},
           WeightStatistics{static_cast<const Statistic*>(statistics_.get()),
                            static_cast<const double*>(coefficients_.get()) + kMaxLossTerms});
    std::vector<Tensor> data{elements(spec_.grads), {on_device()->terms, DType::f64, {spec_.terms}}};
    for (const UpdateSpec::Statistic& s : spec_.statistics) data.push_back({s.staged, DType::f32, {s.count}});
    spec_.ranks->sum(data);
  }

  void displace(const float* along) {
    launch(d_, {shard_blocks(), kThreads, 0},
           Displace{on_device(), shards(), n_shards_, spec_.params, along, floats(kept_)});
  }
  void inspect(const float* gradients, Part* parts, bool norm) {
    if (by_shards_)
      launch(d_, {shard_blocks(), kThreads, 256},
             InspectShards{on_device(), shards(), n_shards_, gradients, parts, norm});
    else
      launch(d_, {blocks_, kThreads, 256}, Inspect{on_device(), gradients, spec_.elements, parts, norm});
  }

  void drain() {
    const int64_t seen = *seen_;
    std::atomic_thread_fence(std::memory_order_acquire);
    for (; read_ < seen; ++read_) reports_.push_back(static_cast<const UpdateState*>(ring_.get())[read_ % kRing]);
  }

  void launch_all() {
    auto* parts = static_cast<Part*>(parts_.get());
    const auto* statistics = static_cast<const Statistic*>(statistics_.get());
    const OptimizerConfig& o = spec_.optimizer;
    sum_over_ranks();
    if (o.gradient_noise > 0)
      launch(d_, {shard_blocks(), kThreads, 0},
             AddNoise{on_device(), shards(), n_shards_, spec_.grads, o.gradient_noise, o.noise_seed});
    inspect(spec_.grads, parts, true);
    launch(d_, {n_statistics(), kThreads, 256}, InspectStatistics{statistics, parts + inspected()});
    if (n_units_ > 0)
      launch(d_, {std::min<int64_t>(n_units_, int64_t{d_.multiprocessors()} * 8), kThreads, 256},
             ShapeUnits{on_device(), static_cast<const Unit*>(units_.get()), n_units_, spec_.params, spec_.grads,
                        o.centralize});
    if (spec_.curvature) inspect(spec_.curvature, parts + inspected() + n_statistics(), false);
    if (tensors_) {
      decide<NoElement>();
      tensors_->launch(spec_, moves());
      launch(d_, {shard_blocks(), kThreads, 0}, Follow{moves(), followers()});
    } else {
      with_element(o.rule, o.settings, [&](auto element) { launch_rule<decltype(element)>(); });
    }
    if (spec_.own) {  // runs in skipped steps too; the weights are then unchanged
      spec_.gather();
      launch(d_, {shard_blocks(), kThreads, 0}, KeepCopies{shards(), n_shards_, spec_.params});
    }
    launch(d_, {std::min<int64_t>(n_statistics(), 256), kThreads, 0},
           CommitStatistics{on_device(), statistics, n_statistics()});
    for_each(d_, 1,
             Report{on_device(), static_cast<UpdateState*>(ring_.get()), static_cast<int64_t*>(counts_.get()), seen_,
                    kRing, d_.index_flag()});
  }

  Moves moves() const {
    return {on_device(), static_cast<const Shard*>(moved_.get()), n_moved_, settings_of(spec_), floats(clips_)};
  }
  Followers followers() const {
    const OptimizerConfig& o = spec_.optimizer;
    return {spec_.params, of_all(averages_), of_all(slow_),
            own_.count,   o.averages(),      static_cast<float>(o.lookahead_alpha),
            o.lookahead};
  }

  template <class Element>
  void decide() {
    const OptimizerConfig& o = spec_.optimizer;
    const bool clip = o.max_grad_norm > 0 && n_groups_ == 0, inf_norm = o.clip_mode == ClipMode::norm_inf;
    Rules rules{clip && (inf_norm || o.clip_mode == ClipMode::norm2),
                inf_norm,
                o.max_grad_norm,
                settings_of(spec_),
                spec_.scale,
                {},
                static_cast<const double*>(lr_.get()),
                static_cast<const double*>(momentum_.get()),
                n_lr_};
    for (int k = 0; k < o.averages(); ++k) rules.averages[k] = o.average_rule(k);
    const auto* parts = static_cast<const Part*>(parts_.get());
    launch(d_, {1, kThreads, 256}, Decide<Element>{on_device(), parts, n_parts(), rules});
    if (n_groups_ > 0)
      launch(d_, {n_groups_, kThreads, 256},
             ClipGroups{on_device(), shards(), n_shards_, parts, static_cast<const double*>(bounds_.get()), inf_norm,
                        floats(clips_)});
  }

  template <class Element>
  void launch_rule() {
    decide<Element>();
    const int64_t blocks = blocks_of(n_moved_);
    if constexpr (kQuantizes<Element> && Element::moments <= 2) {
      if (spec_.optimizer.quantized()) {
        launch(d_, {blocks, kThreads, 256},
               ApplyQuantized<Element>{moves(), followers(), spec_.grads,
                                       static_cast<const QuantizedLayout::Place*>(places_.get()), quantized_[0].spans(),
                                       quantized_.back().spans()});
        return;
      }
    }
    auto* norms = static_cast<NormTerms<double>*>(norms_.get());
    if constexpr (kNeedsNorms<Element>) {
      auto* measured = static_cast<NormTerms<double>*>(measured_.get());
      launch(d_, {blocks, kThreads, 256},
             Measure<Element>{moves(), spec_.params, spec_.grads, floats(m_), floats(v_), measured});
      launch(d_, {static_cast<int64_t>(spec_.spans.size()), kThreads, 256},
             SpanNorms{measured, static_cast<const int64_t*>(first_shard_.get()), norms});
    }
    launch(
        d_, {blocks, kThreads, 0},
        Apply<Element>{moves(), followers(), spec_.grads, of_all(m_), of_all(v_), of_all(u_), spec_.curvature, norms});
  }

  CudaDevice& d_;
  UpdateSpec spec_;
  const ElementRange own_;  // elements that this rank updates: all, or its shard if the optimizer is sharded
  DeviceMemory m_, v_, u_, averages_, slow_, kept_, units_, first_shard_, measured_, norms_, state_, coefficients_,
      parts_, lr_, momentum_, statistics_, counts_, shards_, moved_, ring_, bounds_, clips_, places_;
  std::optional<TensorUpdate> tensors_;  // set if the optimizer is tensor-wise
  std::optional<QuantizedLayout> quantized_at_;
  std::vector<Quantized> quantized_;  // 8-bit moments, which replace m_ and v_
  volatile int64_t* seen_ = nullptr;
  int64_t blocks_ = 1, n_units_ = 0, n_groups_ = 0, n_shards_ = 0, n_moved_ = 0, n_lr_ = 1, asked_ = 0, read_ = 0;
  bool by_shards_ = false;           // true if gradients are inspected one shard at a time
  std::deque<UpdateState> reports_;  // read from the ring, not yet returned by take()
  std::unique_ptr<Recording> recording_;
  bool ran_ = false;
};

}  // namespace

std::unique_ptr<DeviceUpdate> CudaDevice::make_update(const UpdateSpec& spec) {
  return std::make_unique<Update>(*this, spec);
}

}  // namespace amp::cuda
