// Saving and resuming of a Trainer. The JSON state contains counters, loss scaler, sampler position, schedule and best
// metric; the tensors are parameters and optimizer state. resume() reads the same keys, so change both together. The
// best checkpoint may be held in memory until the budget permits writing it (SaveBudget).
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "trainer/compile/first_nonfinite.h"
#include "trainer/compile/flat_views.h"
#include "trainer/loop/checked_state.h"
#include "trainer/loop/metrics_state.h"
#include "trainer/loop/resumed_schedule.h"
#include "trainer/loop/trainer.h"

namespace amp {

namespace {
constexpr double kLargest = std::numeric_limits<double>::max();

ScaleState scale_of_state(const CheckedState& s, int64_t step) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return {static_cast<float>(s.number("scale", 0, std::numeric_limits<float>::max())),
          static_cast<int32_t>(s.whole("growth_tracker", 0, most)),
          static_cast<int32_t>(s.whole("hysteresis_left", 0, most)), s.whole("consecutive_skips", 0, step),
          s.whole("total_skips", 0, step)};
}

std::vector<double> step_scalars_of_state(const CheckedState& s) {
  std::vector<double> out;
  if (!s.has("facts")) return out;
  for (const nlohmann::json& v : s.array("facts")) {
    if (!v.is_number()) s.refuse("facts", "holds no numbers");
    out.push_back(v.get<double>());
  }
  return out;
}
}  // namespace

Checkpoint Trainer::checkpoint(const SamplerState& next) const {
  const HostTensor elsewhere = evaluated(), params = elsewhere ? elsewhere : session_.host_params();
  const std::string broken = first_nonfinite(session_.layout(), params.as<float>());
  if (!broken.empty())
    fail(Exit::numerical, "E_NONFINITE_WEIGHT",
         cat("parameter '", broken, "' holds a non-finite value; no checkpoint was written"));
  Checkpoint c;
  c.step = step_;
  c.tensors = engine_.state();
  add_views(session_.moving(), "param", params, c.tensors);
  c.hashes = config_.fixed;
  const ScaleState s = engine_.scale();
  nlohmann::json state = {{"applied_steps", engine_.applied_steps()},
                          {"scaler",
                           {{"scale", s.scale},
                            {"growth_tracker", s.growth_tracker},
                            {"hysteresis_left", s.hysteresis_left},
                            {"consecutive_skips", s.consecutive_skips},
                            {"total_skips", s.total_skips}}},
                          {"sampler", {{"epoch", next.epoch}, {"window", next.window}}},
                          {"schedule", nlohmann::json::parse(schedule_record(config_.schedule, config_.max_steps))},
                          {"evaluation_due", evaluation_due_},
                          {"best", {{"value", best_.value}, {"step", best_.step}, {"evals_since", best_.evals_since}}}};
  if (const std::vector<double> step_scalars = engine_.step_scalars(); !step_scalars.empty())
    state["facts"] = step_scalars;
  if (session_.padding_guard().off()) state["padding_removal"] = "off";
  if (const PaddingGuard::Counts& n = session_.padding_guard().counts(); n != PaddingGuard::Counts())
    state["padding_checks"] = {
        {"agreed", n.agreed}, {"agreed_evaluations", n.agreed_evaluations}, {"evaluated", n.evaluated}};
  if (plateau_) {
    const Plateau::State& p = plateau_->state();
    state["plateau"] = {
        {"best", p.best}, {"seen", p.seen}, {"bad", p.bad}, {"cooldown", p.cooldown}, {"scale", p.scale}};
  }
  if (lr_factor_ != 1) state["lr_factor"] = lr_factor_;
  if (initial_) state["initial"] = to_state(*initial_);
  if (last_) state["last"] = to_state(*last_);
  if (losses_not_finite_ > 0) state["losses_not_finite"] = losses_not_finite_;
  c.state = state.dump();
  return c;
}

void Trainer::save(const SamplerState& next, bool at_end) {
  if (saved_step_ == step_ || !config_.saves) return;
  doing("saving a checkpoint");
  engine_.gather();
  if (ranks_.is_root()) {
    account(writer_.finish());
    // the held checkpoint is written before the current one, because checkpoints are pruned in the order of their steps
    std::vector<Checkpoint> checkpoints;
    if (held_ && held_->step != step_) checkpoints.push_back(std::move(*held_));
    held_.reset();
    checkpoints.push_back(checkpoint(next));
    const double began = steady_seconds();
    if (!at_end && keep(checkpoints.back(), static_cast<int64_t>(checkpoints.size()) - 1)) {
      budget_.spend(steady_seconds() - began);
      writer_.start(save_of(std::move(checkpoints)));
    } else {
      write(std::move(checkpoints));
    }
    engine_.release();
  }
  saved_step_ = step_;
}

void Trainer::warn_of_old(const std::string& why) const {
  config_.log.warning(cat("W_CKPT_REMOVE: an old checkpoint is kept: ", why));
}

// An interrupted evaluation may still find that another checkpoint is the best. Until the resumed run has repeated that
// evaluation, all checkpoints are kept. So in the end the same checkpoints remain as without the interruption.
SaveOptions Trainer::save_options() const {
  return {evaluation_due_ ? 0 : config_.save_total_limit, best_.step,
          [this](const std::string& why) { warn_of_old(why); }};
}

bool Trainer::keep(Checkpoint& c, int64_t others) {
  if (!session_.device().traits().host_memory) return true;  // the tensors were copied from the device
  int64_t bytes = 0;
  for (const auto& [name, tensor] : c.tensors) bytes += tensor.bytes();
  const bool allowed = config_.copy_bytes < 0 || bytes * (others + 1) <= config_.copy_bytes;
  if (allowed && bytes <= available_memory_bytes() / 4) {  // leaves memory for evaluation and export
    for (auto& [name, tensor] : c.tensors) tensor = tensor.copied();
    return true;
  }
  if (!std::exchange(warned_no_copy_, true)) {
    config_.log.note(cat("steps wait while a checkpoint is written: ",
                         allowed ? "too little memory is free" : "`memory_budget` leaves no room", " for a copy of ",
                         with_thousands(bytes), " B"));
  }
  return false;
}

std::vector<const MetricsLog*> Trainer::logs() const {
  std::vector<const MetricsLog*> out;
  for (const std::optional<MetricsLog>* log : {&log_, &evaluations_}) {
    if (*log) out.push_back(&**log);
  }
  return out;
}

Save Trainer::save_of(std::vector<Checkpoint> checkpoints) const {
  // The logs are made durable first. So even after a power cut they contain the lines of all steps of any checkpoint.
  return {std::move(checkpoints), save_options(), [logs = logs(), &before = config_.before_save] {
            for (const MetricsLog* log : logs) log->sync();
            if (before) before();
          }};
}

void Trainer::write(std::vector<Checkpoint> checkpoints) {
  account(write_now(config_.output_dir + "/checkpoints", save_of(std::move(checkpoints))));
}

void Trainer::account(const SaveResult& result) {
  if (result.seconds > 0) budget_.spend(result.seconds);
  for (const std::string& why : result.warnings) warn_of_old(why);
}

void Trainer::settle() {
  write_held();
  for (const MetricsLog* log : logs()) log->sync();
  log_.reset();
  evaluations_.reset();
  // Removes checkpoints beyond the limit, which remain if an earlier process was killed between a save and the removal
  // of older checkpoints.
  if (ranks_.is_root() && config_.saves && saved_step_ >= 0)
    prune_checkpoints(config_.output_dir + "/checkpoints", saved_step_, save_options());
}

bool Trainer::affordable() {
  return on_any(ranks_.is_root() && !writer_.busy() && budget_.affords(steady_seconds() - began_));
}

bool Trainer::save_due(bool epoch_end) {
  if (config_.save_strategy == SaveStrategy::none) return false;
  if (config_.save_steps > 0 && step_ % config_.save_steps == 0) return true;
  if (!epoch_end || step_ >= config_.max_steps) return epoch_end;  // the last step's checkpoint is always written
  if (config_.save_strategy == SaveStrategy::automatic) return affordable();
  return config_.save_strategy == SaveStrategy::epoch;
}

bool Trainer::hold_best(const SamplerState& next) {
  if (!config_.saves || config_.save_strategy != SaveStrategy::automatic || affordable()) return false;
  engine_.gather();
  bool no_room = false;
  if (ranks_.is_root()) {
    Checkpoint c = checkpoint(next);
    no_room = !keep(c, writer_.busy() ? 1 : 0);
    if (!no_room) held_ = std::move(c);
    engine_.release();
  }
  return !on_any(no_room);
}

void Trainer::write_held() {
  account(writer_.finish());
  if (!held_) return;
  std::vector<Checkpoint> checkpoints;
  checkpoints.push_back(std::move(*held_));
  held_.reset();
  write(std::move(checkpoints));
}

void Trainer::resume(const Checkpoint& c) {
  require_same(c.hashes, config_.fixed);
  require_finite(c);
  const CheckedState state = CheckedState::of(c), sampler = state.member("sampler"), best = state.member("best");
  HostTensor params = session_.host_params();
  copy_views(session_.moving(), "param", c.tensors, static_cast<float*>(params.mutable_data()));
  session_.set_params(params);
  engine_.load(c.tensors, state.whole("applied_steps", 0, c.step), scale_of_state(state.member("scaler"), c.step),
               step_scalars_of_state(state));
  next_ = {sampler.whole("epoch", 0, c.step), sampler.whole("window", 0, c.step)};
  best_ = {best.number("value", -kLargest, kLargest), best.whole("step", -1, c.step),
           best.whole("evals_since", 0, c.step)};
  if (state.has("padding_removal") && state.text("padding_removal") == "off") session_.padding_guard().turn_off();
  if (state.has("padding_checks")) {
    const CheckedState n = state.member("padding_checks");
    session_.padding_guard().restore({n.whole("agreed", 0, kMostCount), n.whole("agreed_evaluations", 0, kMostCount),
                                      n.whole("evaluated", 0, kMostCount)});
  }
  evaluation_due_ = state.has("evaluation_due") && state.truth("evaluation_due");
  if (plateau_) {
    const CheckedState p = state.member("plateau");
    plateau_->restore({p.number("best", -kLargest, kLargest), p.truth("seen"), p.whole("bad", 0, kMostCount),
                       p.whole("cooldown", 0, kMostCount), p.number("scale", 0, 1)});
    engine_.set_lr_scale(plateau_->scale());
  } else {
    set_lr_factor(state.has("lr_factor") ? state.number("lr_factor", 0, kLargest) : 1.0);
  }
  if (state.has("initial")) initial_ = metrics_of_state(state.member("initial"));
  if (state.has("last")) last_ = metrics_of_state(state.member("last"));
  losses_not_finite_ = state.has("losses_not_finite") ? state.whole("losses_not_finite", 0, c.step) : 0;
  step_ = saved_step_ = c.step;
  if (evaluation_due_) saved_step_ = -1;  // the checkpoint is written again after the repeated evaluation
}

}  // namespace amp
