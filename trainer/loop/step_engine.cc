// Order within a step: seeds, curvature (if due), micro-batches, SAM's second pass, update. All launches are
// asynchronous on a GPU; the engine waits only if an optimizer's interval needs the number of applied steps.
// state() and load() define the optimizer's part of a checkpoint.

#include "trainer/loop/step_engine.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/memory_phase.h"
#include "base/error.h"
#include "trainer/comm/device_communicator.h"
#include "trainer/compile/discarded_terms.h"
#include "trainer/compile/flat_views.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {
constexpr float kOverflow = std::numeric_limits<float>::infinity();
using Moment = DeviceUpdate::Moment;
constexpr const char* kCurvature = "hessian";
constexpr char kOfRank = '@';                  // with local steps, "m@2" is rank 2's moment m
constexpr const char* kTraining = "training";  // the trained weights, if the evaluated weights differ

// Returns the moments and averages of an update, with their names in checkpoints.
std::vector<std::pair<std::string, Moment>> moments_of(const OptimizerConfig& optimizer) {
  std::vector<std::pair<std::string, Moment>> out{
      {"m", Moment::m}, {"v", Moment::v}, {"u", Moment::u}, {"slow", Moment::slow}};
  for (int k = 0; k < optimizer.averages(); ++k) out.emplace_back(optimizer.average_name(k), DeviceUpdate::average(k));
  return out;
}
}  // namespace

UpdateSpec describe_update(const Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps) {
  optimizer.validate();
  UpdateSpec spec;
  session.describe(spec);
  spec.optimizer = optimizer;
  spec.scale = scale;
  const Schedule at(schedule);
  spec.lr = [at](int64_t applied) { return at.lr(applied); };
  if (const std::optional<double> first = at.momentum(0)) {
    // the first momentum is above 0, so that sgd allocates its moment
    spec.optimizer.settings.*cycled_key(optimizer.rule) = *first;
    spec.momentum = [at](int64_t applied) { return *at.momentum(applied); };
  }
  spec.max_steps = max_steps;
  spec.terms = static_cast<int>(LossAccumulator(losses).seeds(1).size());
  return spec;
}

StepEngine::StepEngine(Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                       const LossScaleConfig& scale, const Losses& losses, int64_t max_steps, Communicator& ranks,
                       const Options& options)
    : session_(session),
      ranks_(ranks),
      optimizer_(optimizer),
      overlaps_(options.overlap_sums),
      local_(options.local && ranks.size() > 1),
      scaler_(scale),
      update_(in_phase("the optimizer's moments", [&] {
        if (optimizer.samples_labels()) Curvature::require_label_sampling(losses);
        if (optimizer.needs_hessian_diagonal()) curvature_.emplace(session, optimizer);
        UpdateSpec spec = describe_update(session, optimizer, schedule, scale_rule(scale), losses, max_steps);
        if (sharded()) {
          const Tensor params{spec.params, DType::f32, {spec.elements}};
          std::vector<ElementRange> shares;
          for (int r = 0; r < ranks.size(); ++r) {
            const Communicator::Shard s = ranks.shard(spec.elements, r);
            shares.push_back({s.begin, s.count});
          }
          spec.own = shares[static_cast<size_t>(ranks.rank())];
          spec.gather = [this, params, shares] { summing_->gather(params, shares); };
        }
        if (ranks.size() > 1 && !local_ && session.device().traits().host_memory)
          early_ = std::make_unique<GradientReducer>(ranks, session.layout(), session.grads_memory(),
                                                     options.grad_reduce_dtype);
        const CompressedGradients sent{{spec.grads, DType::f32, {spec.elements}}, options.grad_reduce_dtype};
        if (ranks.size() > 1)
          summing_ =
              local_ ? join_local(session.device(), ranks) : join_devices(session.device(), ranks, early_.get(), sent);
        spec.ranks = summing_.get();
        return session.device().make_update(spec);
      })) {
  update_->set_state(scaler_.state(), 0);
  session_.state().ranks = summing_.get();
  if (options.gradient_cache) cache_.emplace(session, losses, ranks);
}

StepEngine::~StepEngine() { session_.state().ranks = nullptr; }

void StepEngine::submit(const StepInput& w, const LossAccumulator& counted) {
  const std::vector<double> seeds = (w.own_items ? *w.own_items : counted).seeds(1);
  update_->begin(seeds, w.share);
  session_.state().step = w.step;
  const std::vector<int64_t> before = w.before.empty() ? rows_before(w.rows) : w.before;
  // state() waits for the device, so it is only read if the optimizer has an interval.
  if (curvature_ && (curvature_->every_step() || curvature_->due(update_->state().applied))) {
    curvature_->estimate(*w.losses, w.batches, before, seeds);
    update_->average_curvature();
  }
  launch(w, before, *update_);
  if (session_.copies().size() != known_copies_) update_->set_copies(session_.copies().copies());
  known_copies_ = session_.copies().size();
  if (optimizer_.sam_rho > 0) second_pass(w, before);
  if (w.inject_overflow) session_.device().upload(session_.grads(), &kOverflow, sizeof kOverflow);
  update_->apply();
  asked_.push_back({w.step, counted});
}

void StepEngine::launch(const StepInput& w, const std::vector<int64_t>& before, LossTerms& terms) {
  // In tests, an overflow may be injected, which is written after backward. So the gradients must not be summed over
  // the ranks during backward.
  GradientWatch* const watch = overlaps_ && !w.inject_overflow ? early_.get() : nullptr;
  if (!cache_) return launch_micro_batches(session_, *w.losses, w.batches, before, terms, w.look, watch);
  const int64_t rows = w.all_rows >= 0 ? w.all_rows : std::reduce(w.rows.begin(), w.rows.end());
  cache_->launch(w.batches, before, rows, terms, watch);
}

// Computes the gradients at the perturbed weights (sharpness-aware minimization, SAM; Foret et al. 2021). Losses and
// running statistics remain those of the first pass.
void StepEngine::second_pass(const StepInput& w, const std::vector<int64_t>& before) {
  session_.hold_statistics();
  update_->perturb();
  DiscardedTerms terms(*update_);
  launch(w, before, terms);
  update_->restore();
  session_.release_statistics();
}

std::optional<StepResult> StepEngine::take(bool wait) {
  const std::optional<UpdateState> r = update_->take(wait);
  if (!r) return {};
  Asked asked = asked_.front();
  asked_.pop_front();
  StepResult s;
  s.step = asked.step;
  asked.loss.add(std::vector<double>(r->terms, r->terms + asked.loss.seeds(1).size()));
  s.loss = asked.loss.loss();
  s.grad_norm = r->norm;
  s.lr = r->lr;
  s.applied_steps = r->applied;
  if (early_) s.sums = early_->cost();
  s.scale = make_scale_report(scaler_.config(), r->used_scale, r->scale, r->found_inf != 0);
  return s;
}

void StepEngine::set_loss_scale(float scale) {
  const LossScaleConfig& c = scaler_.config();
  if (c.mode != LossScaleConfig::Mode::dynamic)
    fail(Exit::usage, "E_LOSS_SCALE", "this run has no dynamic loss scale that could be set",
         "train with `use_fp16`, and leave `loss_scale` out");
  if (!(scale >= c.min && scale <= c.max))
    fail(Exit::usage, "E_LOSS_SCALE", cat("a loss scale of ", scale, " is outside of ", c.min, " to ", c.max),
         "change the limits with `min_loss_scale` and `max_loss_scale`");
  const UpdateState now = update_->state();
  ScaleState state = now.scale;
  state.scale = scale;
  scaler_.restore(state);
  update_->set_state(scaler_.state(), now.applied);
}

std::map<std::string, HostTensor> StepEngine::state() const {
  std::map<std::string, HostTensor> out;
  for (const auto& [name, which] : moments_of(optimizer_)) {
    if (const HostTensor t = on_host(which)) add_views(session_.layout(), name, t, out);
  }
  for (const auto& [name, t] : of_others_) add_views(session_.layout(), name, t, out);
  for (const auto& [name, t] : update_->own_state()) {
    if (t.numel() > 0) out[name] = session_.device().on_host(t);
  }
  if (curvature_) add_views(session_.layout(), kCurvature, session_.device().on_host(session_.curvature()), out);
  if (optimizer_.has_evaluated_weights()) add_views(session_.layout(), kTraining, session_.host_params(), out);
  return out;
}

HostTensor StepEngine::evaluated() const {
  if (!optimizer_.has_evaluated_weights()) return {};
  const HostTensor now = session_.host_params();
  HostTensor out = HostTensor::empty(now.dtype(), now.dims());
  std::copy_n(now.as<float>(), now.numel(), out.as_mutable<float>());
  if (applied_steps() == 0) return out;
  const HostTensor m = session_.device().on_host(*update_->moment(DeviceUpdate::Moment::m));
  for (const Chunk& c : session_.layout().chunks()) {
    if (!c.frozen)
      convert_to_evaluated(optimizer_, out.as_mutable<float>() + c.offset, m.as<float>() + c.offset, c.numel);
  }
  return out;
}

std::vector<double> StepEngine::step_scalars() const {
  if (!optimizer_.keeps_step_scalars()) return {};
  const UpdateState s = update_->state();
  return {std::begin(s.step_scalars), std::end(s.step_scalars)};
}

HostTensor StepEngine::average(int k) const { return on_host(DeviceUpdate::average(k)); }

HostTensor StepEngine::on_host(Moment which) const {
  if (sharded()) {
    const auto at = gathered_.find(which);
    return at == gathered_.end() ? HostTensor() : at->second;
  }
  const auto t = update_->moment(which);
  return t ? session_.device().on_host(*t) : HostTensor();
}

void StepEngine::average_ranks() {
  if (!local_) return;
  UpdateSpec spec;
  session_.describe(spec);
  std::vector<Tensor> all{{spec.params, DType::f32, {spec.elements}}};
  for (const UpdateSpec::Statistic& s : spec.statistics) all.push_back({s.committed, DType::f32, {s.count}});
  for (int k = 0; k < optimizer_.averages(); ++k) all.push_back(*update_->moment(DeviceUpdate::average(k)));
  summing_->average(all);
  session_.set_params(session_.host_params());  // refreshes the 16-bit copies
}

void StepEngine::release() {
  gathered_.clear();
  of_others_.clear();
}

void StepEngine::gather_local() {
  for (const auto& [name, which] : moments_of(optimizer_)) {
    const auto t = update_->moment(which);
    if (!t || which >= Moment::ema) continue;  // moving averages are equal on all ranks
    const HostTensor mine = session_.device().on_host(*t);
    for (int r = 1; r < ranks_.size(); ++r) {
      std::string bytes;
      if (r == ranks_.rank()) bytes.assign(static_cast<const char*>(mine.data()), static_cast<size_t>(mine.bytes()));
      ranks_.broadcast(bytes, r);
      if (!ranks_.is_root()) continue;
      HostTensor other = HostTensor::empty(t->dtype, t->dims);
      bytes.copy(static_cast<char*>(other.mutable_data()), bytes.size());
      of_others_[cat(name, kOfRank, r)] = std::move(other);
    }
  }
}

// Returns the name of the saved moment that this rank loads. With local steps, each rank saved separate moments; this
// rank then loads those of rank() modulo the number of saved ranks. Otherwise all ranks load the same moment.
std::string StepEngine::own_name(const std::string& moment, const std::map<std::string, HostTensor>& state) const {
  const auto is_there = [&](int r) {
    const std::string begin = cat(moment, kOfRank, r, '/');
    const auto at = state.lower_bound(begin);
    return at != state.end() && at->first.starts_with(begin);
  };
  int saved = 1;
  while (is_there(saved)) ++saved;
  const int r = local_ ? ranks_.rank() % saved : 0;
  return r == 0 ? moment : cat(moment, kOfRank, r);
}

void StepEngine::gather() {
  if (local_) return gather_local();
  if (!sharded()) return;
  const int64_t n = session_.layout().trained_size();
  for (const auto& [name, which] : moments_of(optimizer_)) {
    const auto t = update_->moment(which);
    if (!t) continue;
    HostTensor all = HostTensor::zeros(DType::f32, {n});
    const HostTensor mine = session_.device().on_host(*t);
    std::copy_n(mine.as<float>(), t->numel(), all.as_mutable<float>() + own().begin);
    ranks_.all_gather(std::span(all.as_mutable<float>(), static_cast<size_t>(n)));
    if (ranks_.is_root()) gathered_[which] = std::move(all);
  }
}

void StepEngine::load(const std::map<std::string, HostTensor>& state, int64_t applied_steps, const ScaleState& scale,
                      const std::vector<double>& step_scalars) {
  scaler_.restore(scale);
  for (const auto& [name, which] : moments_of(optimizer_)) {
    const auto t = update_->moment(which);
    if (!t) continue;
    HostTensor span = HostTensor::zeros(DType::f32, {session_.layout().trained_size()});
    copy_views(session_.layout(), own_name(name, state), state, span.as_mutable<float>());
    const int64_t begin = sharded() ? own().begin : 0;
    session_.device().upload(t->data, span.as<float>() + begin, t->numel() * static_cast<int64_t>(sizeof(float)));
  }
  for (const auto& [name, t] : update_->own_state()) {
    if (t.numel() > 0) session_.device().upload(t.data, whole_of(name, state, t).data(), t.bytes());
  }
  if (curvature_) {
    HostTensor span = session_.device().read(session_.curvature());
    copy_views(session_.layout(), kCurvature, state, span.as_mutable<float>());
    session_.device().upload(session_.curvature().data, span.data(), span.bytes());
  }
  if (optimizer_.has_evaluated_weights()) {
    HostTensor params = session_.host_params();
    copy_views(session_.layout(), kTraining, state, params.as_mutable<float>());
    session_.set_params(params);
  }
  update_->set_state(scaler_.state(), applied_steps);
  if (!optimizer_.keeps_step_scalars()) return;
  double given[kStepScalars] = {};
  std::copy_n(step_scalars.begin(), std::min<size_t>(step_scalars.size(), kStepScalars), given);
  update_->set_step_scalars(given);
}

}  // namespace amp
