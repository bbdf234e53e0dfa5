#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <map>

#include "backend/cuda/update_around.cuh"
#include "backend/update.h"
#include "backend/update_rules.h"

namespace amp::cuda {

namespace {

using namespace update_kernels;

class Update final : public DeviceUpdate {
 public:
  Update(CudaDevice& device, const UpdateSpec& spec) : d_(device), spec_(spec) {
    check(spec.terms <= kMaxLossTerms, cat("at most ", kMaxLossTerms, " loss terms on CUDA"));
    check(spec.elements % 4 == 0, "spans are padded");
    spec.optimizer.validate();
    if (spec.optimizer.quantised())
      fail(Exit::unsupported, "E_DEVICE_UPDATE", "--optim_bits 8 is computed on the CPU alone",
           "--optim_bits 32, or --device cpu");
    if (spec.optimizer.whole())
      fail(Exit::unsupported, "E_DEVICE_UPDATE",
           cat("--optimizer ", spec.optimizer.rule, " is computed on the CPU alone"),
           "another --optimizer, or --device cpu");
    const OptimizerConfig& o = spec.optimizer;
    const char* const alone = o.gradient_noise > 0               ? "--gradient_noise"
                              : o.swa_start >= 0                 ? "--swa_start"
                              : o.ema_every != 1 || o.ema_warmup ? "--ema_every and --ema_warmup"
                              : spec.momentum                    ? "--lr_scheduler_kwargs cycle_momentum"
                                                                 : nullptr;
    if (alone)
      fail(Exit::unsupported, "E_DEVICE_UPDATE", cat(alone, ": computed on the CPU alone"),
           "leave it out, or --device cpu");
    for (const UpdateSpan& s : spec.spans) {
      if (s.clip_group > 0 || s.from_step > 0)
        fail(Exit::unsupported, "E_DEVICE_UPDATE",
             cat("--param_group with ", s.clip_group > 0 ? "max_grad_norm" : "unfreeze_step",
                 " is computed on the CPU alone"),
             "leave it out, or --device cpu");
    }
    const int64_t bytes = spec.elements * 4;
    if (spec.optimizer.moments() > 0) m_ = d_.allocate(bytes);
    if (spec.optimizer.moments() > 1) v_ = d_.allocate(bytes);
    if (spec.optimizer.moments() > 2) u_ = d_.allocate(bytes);
    if (spec.optimizer.ema_decay != 0) ema_ = d_.allocate(bytes);
    if (spec.optimizer.lookahead > 0) slow_ = d_.allocate(bytes);
    if (spec.optimizer.sam_rho > 0) kept_ = d_.allocate(bytes);
    for (const DeviceMemory& average : {ema_, slow_}) {
      if (average) d_.copy(average.get(), spec.params, bytes);
    }
    if (spec.optimizer.shapes_gradients()) {
      std::vector<Unit> units;
      for (const UpdateSpan& s : spec.spans) {
        const int64_t count = s.unit > 0 ? s.unit : s.count;
        for (int64_t at = 0; at < s.count; at += count) units.push_back({s.begin + at, count, s.matrix});
      }
      n_units_ = static_cast<int64_t>(units.size());
      units_ = upload(units);
    }
    state_ = upload(std::vector<UpdateState>(1));
    coefficients_ = d_.allocate(8 * kMaxLossTerms);
    blocks_ = std::clamp<int64_t>(spec.elements / (4 * kThreads), 1, int64_t{d_.multiprocessors()} * 8);
    parts_ = d_.allocate(static_cast<int64_t>(sizeof(Part)) * n_parts());
    std::vector<double> lr;
    for (int64_t t = 0; t <= spec.max_steps; ++t) lr.push_back(spec.lr ? spec.lr(t) : 0);
    n_lr_ = static_cast<int64_t>(lr.size());
    lr_ = upload(lr);
    counts_ = d_.allocate(8);
    ring_ = d_.allocate_shared(static_cast<int64_t>(sizeof(UpdateState)) * kRing + 64);
    seen_ = reinterpret_cast<volatile int64_t*>(static_cast<char*>(ring_.get()) + sizeof(UpdateState) * kRing);
    *seen_ = 0;
    set_copies({});
  }

  ~Update() override {  // reports may be under way into memory that goes with us
    try {
      d_.synchronize();
    } catch (...) {
    }
  }

  void set_copies(const std::vector<ParamCache::Copy>& copies) override {
    std::map<int, std::vector<Kept>> by_slot;
    for (const ParamCache::Copy& c : copies) by_slot[c.slot].emplace_back(c);
    for (const auto& [slot, all] : by_slot) check(all.size() <= kKept, "a parameter has too many copies");
    std::vector<Shard> shards;
    std::vector<int64_t> first_shard;
    for (const UpdateSpan& s : spec_.spans) {
      first_shard.push_back(static_cast<int64_t>(shards.size()));
      const auto mine = by_slot.find(s.slot);
      for (int64_t at = 0; at < s.count; at += kShard) {
        Shard shard;
        shard.begin = s.begin + at;
        shard.count = static_cast<int32_t>(std::min(kShard, s.count - at));
        shard.span = static_cast<int32_t>(first_shard.size()) - 1;
        shard.weight_decay = s.weight_decay.value_or(spec_.optimizer.weight_decay);
        shard.lr_factor = s.lr_factor;
        if (mine != by_slot.end()) std::copy(mine->second.begin(), mine->second.end(), shard.copy);
        for (Kept& k : shard.copy) k.first = at;
        shards.push_back(shard);
      }
    }
    std::vector<Statistic> statistics;
    for (const UpdateSpec::Statistic& s : spec_.statistics) {
      Statistic statistic{s.committed, s.staged, s.count, {}};
      const auto mine = by_slot.find(s.slot);
      if (mine != by_slot.end()) std::copy(mine->second.begin(), mine->second.end(), statistic.copy);
      statistics.push_back(statistic);
    }
    n_shards_ = static_cast<int64_t>(shards.size());
    recording_.reset();
    ran_ = false;
    if (n_shards_ > 0) shards_ = upload(shards);
    if (n_shards_ > 0 && rule_measures(spec_.optimizer.rule, spec_.optimizer.settings)) {
      first_shard.push_back(n_shards_);
      first_shard_ = upload(first_shard);
      measured_ = d_.allocate(static_cast<int64_t>(sizeof(RuleTerms<double>)) * n_shards_);
      norms_ = d_.allocate(static_cast<int64_t>(sizeof(RuleTerms<double>) * spec_.spans.size()));
    }
    if (!statistics.empty()) statistics_ = upload(statistics);
  }

  void begin(const std::vector<double>& coefficients) override {
    check(static_cast<int>(coefficients.size()) <= kMaxLossTerms,
          cat("at most ", kMaxLossTerms, " loss terms on CUDA"));
    d_.upload(coefficients_.get(), coefficients.data(), static_cast<int64_t>(coefficients.size()) * 8);
    for_each(d_, kMaxLossTerms, ClearTerms{on_device()});
  }
  void seed(size_t i, const Tensor& input) override {
    for_each(d_, 1, Seed{on_device(), static_cast<const double*>(coefficients_.get()) + i, input});
  }
  void add_term(size_t i, const Tensor& sum) override {
    for_each(d_, 1, AddTerm{on_device(), static_cast<int>(i), sum});
  }

  void average_curvature() override {
    if (spec_.optimizer.settings.average_kernels == 0) return;
    for (const UpdateSpan& s : spec_.spans) {
      if (s.kernel > 1) for_each(d_, s.count / s.kernel, AverageKernels{spec_.curvature + s.begin, s.kernel});
    }
  }
  void perturb() override {
    auto* parts = static_cast<Part*>(parts_.get());
    launch(d_, {blocks_, kThreads, 256}, Inspect{on_device(), spec_.grads, spec_.elements, parts});
    launch(d_, {1, kThreads, 256}, DecideAscent{on_device(), parts, blocks_, spec_.optimizer.sam_rho});
    displace(spec_.grads);
  }
  void restore() override { displace(nullptr); }

  void apply() override {
    if (asked_ - read_ >= kRing) {  // nobody took the reports: the oldest would be overwritten
      d_.synchronize();
      drain();
    }
    ++asked_;
    submit();
    d_.pace(kAhead);
  }

  std::optional<UpdateState> take(bool wait) override {
    drain();
    if (told_.empty() && wait && asked_ > read_) {
      d_.synchronize();
      drain();
      check(!told_.empty(), "a step's report did not arrive");
    }
    if (told_.empty()) return {};
    const UpdateState s = told_.front();
    told_.pop_front();
    d_.heed(s.index_flag);
    return s;
  }
  int64_t pending() const override { return asked_ - read_ + static_cast<int64_t>(told_.size()); }

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
  void set_facts(const double (&facts)[kRuleFacts]) override {
    UpdateState s = state();
    std::copy(std::begin(facts), std::end(facts), std::begin(s.facts));
    d_.upload(state_.get(), &s, sizeof s);
  }
  void set_lr_scale(double scale) override {
    UpdateState s = state();
    s.lr_scale = scale;
    d_.upload(state_.get(), &s, sizeof s);
  }
  std::optional<Tensor> moment(Moment which) override {
    const DeviceMemory& memory = which == Moment::m     ? m_
                                 : which == Moment::v   ? v_
                                 : which == Moment::u   ? u_
                                 : which == Moment::ema ? ema_
                                                        : slow_;
    if (!memory) return {};
    return Tensor{memory.get(), DType::f32, {spec_.elements}};
  }

 private:
  static constexpr int64_t kRing = 64;
  // Steps that the host prepares ahead of the device: enough to keep it busy. More would only make reports late: times
  // of steps that come in heaps, stop signals heeded long after.
  static constexpr int kAhead = 3;

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
  UpdateState* on_device() const { return static_cast<UpdateState*>(state_.get()); }
  int64_t n_statistics() const { return static_cast<int64_t>(spec_.statistics.size()); }
  int64_t n_parts() const { return blocks_ + n_statistics() + (spec_.curvature ? blocks_ : 0); }
  int64_t shard_blocks() const { return std::min<int64_t>(n_shards_, int64_t{d_.multiprocessors()} * 8); }

  void displace(const float* along) {
    launch(d_, {shard_blocks(), kThreads, 0},
           Displace{on_device(), static_cast<const Shard*>(shards_.get()), n_shards_, spec_.params, along,
                    static_cast<float*>(kept_.get())});
  }

  void drain() {
    const int64_t seen = *seen_;
    std::atomic_thread_fence(std::memory_order_acquire);
    for (; read_ < seen; ++read_) told_.push_back(static_cast<const UpdateState*>(ring_.get())[read_ % kRing]);
  }

  void launch_all() {
    auto* parts = static_cast<Part*>(parts_.get());
    const auto* statistics = static_cast<const Statistic*>(statistics_.get());
    launch(d_, {blocks_, kThreads, 256}, Inspect{on_device(), spec_.grads, spec_.elements, parts});
    launch(d_, {n_statistics(), kThreads, 256}, InspectStatistics{statistics, parts + blocks_});
    if (n_units_ > 0) {
      const OptimizerConfig& o = spec_.optimizer;
      launch(d_, {std::min<int64_t>(n_units_, int64_t{d_.multiprocessors()} * 8), kThreads, 256},
             ShapeUnits{on_device(), static_cast<const Unit*>(units_.get()), n_units_, spec_.params, spec_.grads,
                        o.centralize, o.clip_mode == ClipMode::adaptive ? o.max_grad_norm : 0});
    }
    if (spec_.curvature) {
      launch(d_, {blocks_, kThreads, 256},
             Inspect{on_device(), spec_.curvature, spec_.elements, parts + blocks_ + n_statistics(), false});
    }
    with_element(spec_.optimizer.rule, spec_.optimizer.settings,
                 [&](auto element) { launch_rule<decltype(element)>(); });
    launch(d_, {std::min<int64_t>(n_statistics(), 256), kThreads, 0},
           CommitStatistics{on_device(), statistics, n_statistics()});
    for_each(d_, 1,
             Report{on_device(), static_cast<UpdateState*>(ring_.get()), static_cast<int64_t*>(counts_.get()), seen_,
                    kRing, d_.index_flag()});
  }

  template <class Element>
  void launch_rule() {
    const OptimizerConfig& o = spec_.optimizer;
    const bool clip = o.max_grad_norm > 0, by_value = o.clip_mode == ClipMode::value;
    const bool by_norm = o.clip_mode == ClipMode::norm2 || o.clip_mode == ClipMode::norm_inf;
    const Rules rules{clip && by_norm,
                      o.clip_mode == ClipMode::norm_inf,
                      o.max_grad_norm,
                      o.settings,
                      spec_.scale,
                      static_cast<const double*>(lr_.get()),
                      n_lr_};
    launch(d_, {1, kThreads, 256},
           Decide<Element>{on_device(), static_cast<const Part*>(parts_.get()), n_parts(), rules});
    const auto f = [](const DeviceMemory& memory) { return static_cast<float*>(memory.get()); };
    const auto* shards = static_cast<const Shard*>(shards_.get());
    const float limit = clip && by_value ? static_cast<float>(o.max_grad_norm) : INFINITY;
    const int64_t blocks = shard_blocks();
    auto* norms = static_cast<RuleTerms<double>*>(norms_.get());
    if constexpr (kMeasures<Element>) {
      auto* parts = static_cast<RuleTerms<double>*>(measured_.get());
      launch(d_, {blocks, kThreads, 256},
             Measure<Element>{on_device(), shards, n_shards_, o.settings, limit, spec_.params, spec_.grads, f(m_),
                              f(v_), parts});
      launch(d_, {static_cast<int64_t>(spec_.spans.size()), kThreads, 256},
             SpanNorms{parts, static_cast<const int64_t*>(first_shard_.get()), norms});
    }
    launch(d_, {blocks, kThreads, 0},
           Apply<Element>{on_device(), shards, n_shards_, o.settings, limit, static_cast<float>(o.ema_decay),
                          spec_.params, spec_.grads, f(m_), f(v_), f(u_), f(ema_), f(slow_), o.lookahead,
                          static_cast<float>(o.lookahead_alpha), spec_.curvature, norms});
  }

  CudaDevice& d_;
  UpdateSpec spec_;
  DeviceMemory m_, v_, u_, ema_, slow_, kept_, units_, first_shard_, measured_, norms_, state_, coefficients_, parts_,
      lr_, statistics_, counts_, shards_, ring_;
  volatile int64_t* seen_ = nullptr;
  int64_t blocks_ = 1, n_units_ = 0, n_shards_ = 0, n_lr_ = 1, asked_ = 0, read_ = 0;
  std::deque<UpdateState> told_;  // read, not yet taken
  std::unique_ptr<Recording> recording_;
  bool ran_ = false;
};

}  // namespace

std::unique_ptr<DeviceUpdate> CudaDevice::make_update(const UpdateSpec& spec) {
  return std::make_unique<Update>(*this, spec);
}

}  // namespace amp::cuda
