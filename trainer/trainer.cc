#include "trainer/trainer.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "trainer/first_nonfinite.h"

namespace amp {

namespace {
// A number that JSON has no word for was written as null.
double number(const nlohmann::json& j) { return j.is_null() ? std::nan("") : j.get<double>(); }
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

Trainer::Trainer(Session& session, const Dataset& train, const Dataset* val, const StopSignals& stop, TrainerConfig config)
    : session_(session), train_(train), val_(val), stop_(stop), config_(std::move(config)),
      optimizer_(config_.optimizer, session.layout(), static_cast<const float*>(session.params())), schedule_(config_.schedule),
      scaler_(config_.scale), progress_(stderr, config_.logging_steps) {}

Metrics Trainer::evaluate() { return amp::evaluate(session_, config_.goal, *val_, config_.eval_batch_size); }

StepResult Trainer::step(const LoadedWindow& window) {
  StepResult s;
  s.step = step_;
  LossWindow loss(config_.goal.losses);
  std::vector<Tensors> batches;
  for (const Batch& batch : window.batches) {
    batches.push_back(to_tensors(batch, config_.goal.teacher));
    loss.count(batches.back());
  }
  const double scale = scaler_.scale();
  const std::vector<double> seeds = loss.seeds(scale);

  const bool accumulate = window.batches.size() > 1;
  if (accumulate) session_.zero_grads();
  session_.state().step = step_;
  session_.stage_statistics();
  int64_t row = 0;
  for (size_t m = 0; m < batches.size(); ++m) {
    session_.state().samples_before = row;  // random nodes count samples, whatever the cut into micro-batches
    row += window.batches[m].rows;
    loss.add(session_.train_micro(config_.goal.losses, batches[m], seeds, accumulate));
  }
  s.loss = loss.loss();
  if (loss.items() == 0 && !warned_empty_) {
    warned_empty_ = true;
    progress_.message(cat("warning: W_NO_ITEMS: every label of step ", step_, " is ignored: its loss is 0 and it teaches nothing (said once)"));
  }

  float* grads = static_cast<float*>(session_.grads());
  if (config_.inject_overflow && config_.inject_overflow(step_)) {
    for (const Chunk& c : session_.layout().chunks()) {
      if (c.frozen) continue;
      grads[c.offset] = std::numeric_limits<float>::infinity();
      break;
    }
  }
  s.lr = schedule_.lr(optimizer_.steps());
  GradStats stats = optimizer_.inspect(grads, scale);
  stats.found_inf |= !session_.statistics_finite();  // an activation overflowed where no gradient shows it
  if (optimizer_.apply(static_cast<float*>(session_.params()), grads, scale, stats, s.lr)) {
    session_.commit_statistics();
    session_.params_changed();
  } else {
    s.first_bad_param = optimizer_.first_nonfinite(grads);
  }
  s.grad_norm = stats.norm;
  s.scale = scaler_.update(stats.found_inf);
  s.applied_steps = optimizer_.steps();
  return s;
}

TrainResult Trainer::run() {
  TrainResult result;
  if (val_ && config_.initial_eval && !initial_) initial_ = evaluate();
  MetricsLog log(config_.output_dir + "/metrics.jsonl", step_);
  Sampler sampler(train_.size(), train_.lengths(), config_.sampler);
  sampler.seek(next_);
  const int64_t per_epoch = sampler.windows_per_epoch();
  WindowLoader loader(train_, std::move(sampler));
  const int64_t first_step = step_;
  const double started = now();
  double evaluating = 0, last = now();
  bool stop = false;
  SkipWatch skips(config_.scale, step_ > 0);
  while (step_ < config_.max_steps && !stop) {
    const std::optional<LoadedWindow> window = loader.next();
    if (!window) break;
    const StepResult s = step(*window);
    ++step_;
    next_ = window->next;
    result.samples += window->rows;
    result.tokens += window->tokens;
    const double t = now(), dt = std::max(t - last, 1e-9);
    last = t;

    StepLine line;
    line.step = step_ - 1;
    line.epoch = static_cast<double>(window->at.epoch) + static_cast<double>(window->at.window + 1) / static_cast<double>(per_epoch);
    line.loss = s.loss;
    line.lr = s.lr;
    line.loss_scale = s.scale.used;
    line.grad_norm = s.grad_norm;
    line.skipped = s.skipped();
    line.samples_per_s = static_cast<double>(window->rows) / dt;
    line.tokens_per_s = static_cast<double>(window->tokens) / dt;
    line.memory = peak_rss_bytes();
    log.write(line);
    ProgressState p;
    p.step = step_;
    p.total = config_.max_steps;
    p.first_step = first_step;
    p.epoch = line.epoch;
    p.loss = s.loss;
    p.lr = s.lr;
    p.seconds = t - started - evaluating;
    p.samples_per_s = static_cast<double>(result.samples) / std::max(p.seconds, 1e-9);
    p.skipped = scaler_.state().total_skips;
    if (!config_.quiet) progress_.update(p);
    if (const SkipWatch::Message m = skips.see(s.scale); !m.text.empty() && (m.alarm || !config_.quiet)) progress_.message(m.text);
    if (config_.on_step) config_.on_step(s);
    if (config_.max_consecutive_skips > 0 && s.scale.consecutive_skips >= config_.max_consecutive_skips) diverged(s, *window);

    const bool done = step_ >= config_.max_steps;
    const bool epoch_end = window->last_of_epoch || done;
    bool better = false;
    if (val_ && (epoch_end || (config_.eval_steps > 0 && step_ % config_.eval_steps == 0))) {
      const double before = now();
      better = evaluate_now(result, window->at.epoch);
      evaluating += now() - before;
      last = now();
      stop = config_.early_stopping_patience > 0 && evals_since_best_ >= config_.early_stopping_patience;
    }
    if (epoch_end || stop || better || (config_.save_steps > 0 && step_ % config_.save_steps == 0)) {
      log.sync();
      save(next_);
      last = now();
    }
    if (stop_.requested() && !done) {
      log.sync();
      save(next_);
      result.stopped = true;
      result.stop_signal = stop_.name();
      break;
    }
  }
  if (!config_.quiet) progress_.done();
  result.seconds = now() - started - evaluating;
  result.steps = step_;
  result.applied = optimizer_.steps();
  result.skipped = scaler_.state().total_skips;
  result.best_step = best_step_;
  result.initial = initial_;
  return result;
}

TrainResult Trainer::reached() const {
  TrainResult r;
  r.steps = step_;
  r.applied = optimizer_.steps();
  r.skipped = scaler_.state().total_skips;
  r.best_step = best_step_;
  r.initial = initial_;
  return r;
}

bool Trainer::evaluate_now(TrainResult& result, int64_t epoch) {
  const Metrics m = evaluate();
  result.last = m;
  const double v = m.value(config_.best_metric);
  const bool lower = lower_is_better(config_.best_metric);
  const bool better = std::isfinite(v) && (best_step_ < 0 || (lower ? v < best_ : v > best_));
  if (better) {
    best_ = v;
    best_step_ = step_;
    evals_since_best_ = 0;
  } else {
    ++evals_since_best_;
  }
  JsonObject line;
  line.add("step", step_).add("epoch", epoch).add("loss", m.loss);
  std::string text = cat("evaluation at step ", step_, ": loss ", m.loss);
  for (const auto& [name, value] : m.values) {
    line.add(name, value);
    text += cat(", ", name, " ", value);
  }
  line.add("samples", m.samples).add("best", better);
  MetricsLog(config_.output_dir + "/eval.jsonl", step_).write_line(line.str());
  if (!config_.quiet) progress_.message(text);
  return better;
}

void Trainer::diverged(const StepResult& last, const LoadedWindow& window) {
  LossWindow loss(config_.goal.losses);
  std::vector<Tensors> batches;
  for (const Batch& batch : window.batches) {
    batches.push_back(to_tensors(batch, config_.goal.teacher));
    loss.count(batches.back());
  }
  session_.state().step = last.step;
  const std::string value = first_nonfinite_value(session_, config_.goal.losses, batches, loss.seeds(last.scale.used));
  fail(Exit::numerical, "E_DIVERGED",
       cat(last.scale.consecutive_skips, " steps in a row had non-finite gradients (loss scale ", last.scale.next, ")",
           last.first_bad_param.empty() ? "" : cat("; the first non-finite gradient is that of '", printable(last.first_bad_param), "'"),
           value.empty() ? "" : "; ", value),
       "lower --lr, try --use_bf16, or let --amp_level auto find the operators that need fp32 (by hand: a rule in --precision_plan)");
}

void Trainer::save(const SamplerState& next) {
  if (saved_step_ == step_) return;
  const float* params = static_cast<const float*>(session_.params());
  const std::string broken = optimizer_.first_nonfinite(params);
  if (!broken.empty()) fail(Exit::numerical, "E_NONFINITE_WEIGHT", cat("parameter '", broken, "' holds a non-finite value; no checkpoint was written"));
  Checkpoint c;
  c.step = step_;
  c.tensors = optimizer_.state();
  add_views(session_.moving(), "param", params, c.tensors);
  c.hashes = config_.hashes;
  const LossScaler::State& s = scaler_.state();
  nlohmann::json state = {{"applied_steps", optimizer_.steps()},
                          {"scaler",
                           {{"scale", s.scale}, {"growth_tracker", s.growth_tracker}, {"hysteresis_left", s.hysteresis_left},
                            {"consecutive_skips", s.consecutive_skips}, {"total_skips", s.total_skips}}},
                          {"sampler", {{"epoch", next.epoch}, {"window", next.window}}},
                          {"best", {{"value", best_}, {"step", best_step_}, {"evals_since", evals_since_best_}}}};
  if (initial_) {
    state["initial"] = {{"loss", initial_->loss}, {"samples", initial_->samples}, {"values", initial_->values}};
  }
  c.state = state.dump();
  save_checkpoint(config_.output_dir + "/checkpoints", c, {config_.save_total_limit, best_step_});
  saved_step_ = step_;
}

void Trainer::resume(const Checkpoint& c) {
  require_same(c.hashes, config_.hashes);
  try {
    const nlohmann::json state = nlohmann::json::parse(c.state);
    copy_views(session_.moving(), "param", c.tensors, static_cast<float*>(session_.params()));
    optimizer_.load_state(c.tensors, state.at("applied_steps").get<int64_t>());
    const auto& s = state.at("scaler");
    scaler_.restore({s.at("scale").get<float>(), s.at("growth_tracker").get<int32_t>(), s.at("hysteresis_left").get<int32_t>(),
                     s.at("consecutive_skips").get<int64_t>(), s.at("total_skips").get<int64_t>()});
    next_ = {state.at("sampler").at("epoch").get<int64_t>(), state.at("sampler").at("window").get<int64_t>()};
    best_ = state.at("best").at("value").get<double>();
    best_step_ = state.at("best").at("step").get<int64_t>();
    evals_since_best_ = state.at("best").at("evals_since").get<int64_t>();
    if (const auto it = state.find("initial"); it != state.end()) {
      Metrics m;
      m.loss = number(it->at("loss"));
      m.samples = it->at("samples").get<int64_t>();
      for (const auto& v : it->at("values")) m.values.emplace_back(v.at(0).get<std::string>(), number(v.at(1)));
      initial_ = m;
    }
  } catch (const nlohmann::json::exception& e) {
    fail(Exit::checkpoint, "E_CKPT_MANIFEST", cat("the checkpoint's state cannot be read: ", e.what()));
  }
  step_ = saved_step_ = c.step;
  session_.params_changed();
}

}  // namespace amp
