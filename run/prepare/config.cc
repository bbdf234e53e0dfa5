// Resolves the settings of a training run into a TrainerConfig: optimizer, loss scale, schedule, sampler, saving.
// Combinations of settings that contradict each other fail here, before anything is allocated or written.
#include "run/prepare/config.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/update_rules.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/prepare/averages.h"
#include "run/prepare/common.h"
#include "run/prepare/input_files.h"
#include "run/prepare/lr_range.h"
#include "run/settings/settings.h"
#include "run/settings/values.h"
#include "run/spec/spec.h"
#include "trainer/metrics/metric.h"

namespace amp {

namespace {

LossScaleConfig scale_config(const PrecisionSpec& precision, const PrecisionPlan& plan) {
  LossScaleConfig c = base_loss_scale(precision, plan);
  if (c.mode == LossScaleConfig::Mode::off || *precision.loss_scale != "dynamic") return c;
  const auto take = [](auto& value, const auto& setting) {
    if (setting.asked()) value = static_cast<std::remove_reference_t<decltype(value)>>(*setting);
  };
  take(c.init, precision.init_loss_scale);
  take(c.growth_factor, precision.scale_growth_factor);
  take(c.backoff_factor, precision.scale_backoff_factor);
  take(c.min, precision.min_loss_scale);
  take(c.max, precision.max_loss_scale);
  take(c.growth_interval, precision.scale_growth_interval);
  take(c.hysteresis, precision.scale_hysteresis);
  if (c.mode == LossScaleConfig::Mode::dynamic) c.init = std::clamp(c.init, c.min, c.max);
  return c;
}

OptimizerConfig optimizer_config(const RunSpec& spec) {
  OptimizerConfig c;
  c.rule = update_rule_from_name(spec.optimization.optimizer);
  std::map<std::string, double> given;
  for (const auto& [name, text] : parse_arguments("optim_args", spec.optimization.optim_args)) {
    std::optional<double> x = parse_number(text);
    if (const std::optional<bool> truth = parse_bool(text); !x && truth) x = *truth ? 1 : 0;
    if (!x) fail(Exit::usage, "E_FLAG_VALUE", cat("`optim_args` ", name, ": '", printable(text), "' is no number"));
    given[name] = *x;
  }
  for (const RuleKey& k : rule_keys(c.rule)) {
    if (!k.flag.empty()) given.emplace(k.name, std::get<double>(value_of(spec, setting_named(k.flag))));
  }
  c.settings = rule_settings(c.rule, given);
  c.settings.nesterov = spec.optimization.nesterov;
  c.weight_decay = spec.optimization.weight_decay;
  c.clip_mode = clip_mode_from_name(spec.optimization.clip_mode);
  c.max_grad_norm = spec.optimization.max_grad_norm;
  c.ema_decays = ema_decays(spec.optimization);
  c.ema_every = spec.optimization.ema_every;
  c.ema_warmup = spec.optimization.ema_warmup;
  c.gradient_noise = spec.optimization.gradient_noise;
  c.noise_seed = static_cast<uint64_t>(spec.device.seed);
  c.lookahead = spec.optimization.lookahead;
  c.lookahead_alpha = spec.optimization.lookahead_alpha;
  c.sam_rho = spec.optimization.sam_rho;
  c.centralize = spec.optimization.gradient_centralization;
  c.state_bits = spec.optimization.optim_bits;
  c.validate();
  return c;
}

std::function<bool(int64_t)> overflow_drill(const PrecisionSpec& precision) {
  const StepRanges ranges = parse_steps(precision.inject_overflow).value_or(StepRanges{});
  if (ranges.empty()) return nullptr;
  return [ranges](int64_t step) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return step >= r.first && step <= r.second; });
  };
}

}  // namespace

LossScaleConfig base_loss_scale(const PrecisionSpec& precision, const PrecisionPlan& plan) {
  LossScaleConfig c = plan.list.loss_scale;
  if (!plan.any_f16()) {
    c.mode = LossScaleConfig::Mode::off;
  } else if (*precision.loss_scale != "dynamic") {
    c.mode = LossScaleConfig::Mode::fixed;
    const std::optional<double> scale = parse_number(*precision.loss_scale);
    if (!scale || !(*scale > 0))
      fail(Exit::usage, "E_USAGE",
           cat("loss_scale '", printable(*precision.loss_scale), "' is neither dynamic nor a number above 0"));
    c.init = *scale;
  } else if (precision.loss_scale.asked()) {
    c.mode = LossScaleConfig::Mode::dynamic;
  }
  return c;
}

namespace {

// Scales `lr` with the number of samples per step: linearly (Goyal et al. 2017, arXiv:1706.02677) or by the square root
// (Krizhevsky 2014, arXiv:1404.5997). The names of the settings are timm's.
double scaled_lr(const RunSpec& spec) {
  if (spec.optimization.lr_base_scale == "none") return *spec.optimization.lr;
  if (spec.data.text.in_tokens)
    fail(Exit::usage, "E_USAGE",
         cat("`lr_base_scale` ", spec.optimization.lr_base_scale,
             " counts samples, a step of `in_tokens` has no number of them"),
         "leave it out: `lr` is taken as it is given");
  const auto samples = static_cast<double>(spec.schedule.batch_size * spec.schedule.gradient_accumulation_steps *
                                           spec.distribution.ranks);
  const double ratio = samples / static_cast<double>(spec.optimization.lr_base_size);
  return *spec.optimization.lr * (spec.optimization.lr_base_scale == "sqrt" ? std::sqrt(ratio) : ratio);
}

ScheduleConfig schedule_config(const RunSpec& spec, int64_t steps, const Sampler& sampler) {
  ScheduleConfig c;
  c.kind = schedule_from_name(spec.schedule.lr_scheduler);
  c.settings = parse_arguments("lr_scheduler_kwargs", spec.schedule.lr_scheduler_kwargs);
  c.lr = scaled_lr(spec);
  c.total_steps = steps;
  c.epoch_steps = sampler.windows_per_epoch();
  c.warmup_steps = spec.schedule.warmup_steps;
  return c;
}

// Stochastic weight averaging: sets its first step and the learning rate from that step on.
void average_at_end(const OptimizationSpec& optimization, TrainerConfig& c) {
  if (optimization.swa_start >= 0) {
    c.optimizer.swa_start = optimization.swa_start < 1
                                ? std::llround(optimization.swa_start * static_cast<double>(c.max_steps))
                                : std::llround(optimization.swa_start);
    c.optimizer.validate();
  }
  if (optimization.swa_lr < 0) return;
  if (optimization.swa_start < 0)
    fail(Exit::usage, "E_USAGE", cat("`swa_lr` ", optimization.swa_lr, " without `swa_start`"),
         "say from which step on weights are averaged: `swa_start` 0.75");
  c.schedule.averaged = {c.optimizer.swa_start, optimization.swa_lr, optimization.swa_anneal_steps,
                         optimization.swa_anneal_strategy == "cos"};
}

// Applies `gradient_cache`: losses that compare rows are computed over the rows of a whole step.
void cache_gradients(const ScheduleSpec& schedule, TrainerConfig& c) {
  c.gradient_cache = schedule.gradient_cache;
  if (!c.gradient_cache) return;
  const std::vector<LossSpec>& losses = c.objective.losses.parts;
  // z0 of kto is a mean over rows, but it has no gradient, and the cache does not compute it
  if (std::any_of(losses.begin(), losses.end(), [](const LossSpec& s) { return s.kind == "kto"; }))
    fail(Exit::unsupported, "E_GRADIENT_CACHE",
         "`gradient_cache` does not compute the reference point z0 of kto, the mean over a micro-batch",
         "leave it out; a larger `batch_size` makes z0 the mean of more answers");
  if (losses_across_rows(c.objective.losses).parts.empty())
    fail(Exit::usage, "E_USAGE",
         cat("`gradient_cache` is for losses that compare rows with each other, and ", losses.at(0).kind,
             " takes each by itself"),
         "leave it out: accumulated micro-batches are one large batch already");
  if (c.optimizer.needs_hessian_diagonal())
    fail(Exit::unsupported, "E_GRADIENT_CACHE",
         cat("`optimizer` ", c.optimizer.rule,
             " estimates curvature by micro-batches, `gradient_cache` has losses of "
             "whole steps"),
         "take another optimizer, or leave `gradient_cache` out");
}

SaveStrategy saves_of(const OutputSpec& output) {
  const SaveStrategy saves = save_strategy(output.save_strategy);
  if (saves == SaveStrategy::steps && output.save_steps == 0)
    fail(Exit::usage, "E_USAGE", "`save_strategy` steps needs to know how many", "give `save_steps` N");
  if (saves != SaveStrategy::none) return saves;
  if (output.save_steps > 0)
    fail(Exit::usage, "E_USAGE", "`save_strategy` no and `save_steps` contradict each other", "leave one of them out");
  if (output.export_weights == "best")
    fail(Exit::usage, "E_USAGE", "`export_weights` best reads a checkpoint, and `save_strategy` no writes none",
         "leave one of them out");
  return saves;
}

// Checks `sync_every`, which averages weights, their moving averages and running statistics. Fails for settings that
// couple the ranks in each step, or that keep other state per rank.
void check_local_steps(const RunSpec& spec, const TrainerConfig& c) {
  if (spec.distribution.sync_every == 1) return;
  const OptimizerConfig& o = c.optimizer;
  const char* const what =
      spec.distribution.shard_optimizer               ? "`shard_optimizer` shares out one optimizer's state"
      : spec.distribution.grad_reduce_dtype != "fp32" ? "`grad_reduce_dtype` is of gradients, which are not summed"
      : c.sampler.every_rank                          ? "`sync_bn` sums statistics in every step"
      : spec.schedule.gradient_cache                  ? "`gradient_cache` is about the rows of all ranks"
      : o.lookahead > 0                               ? "`lookahead` keeps separate weights"
      : o.needs_hessian_diagonal()       ? "the curvature of all ranks' loss is estimated by this optimizer"
      : o.has_evaluated_weights()        ? "this optimizer averages by itself"
      : o.tensor_wise() || o.quantized() ? "the state of this `optimizer` is not kept for each rank"
                                         : nullptr;
  if (what)
    fail(Exit::usage, "E_RANKS_SETTING", cat("`sync_every` ", spec.distribution.sync_every, ": ", what),
         "leave one of them out");
  for (const auto& [flag, steps] :
       {std::pair("`eval_steps`", spec.evaluation.eval_steps), {"`save_steps`", spec.output.save_steps}}) {
    if (steps % spec.distribution.sync_every != 0)
      fail(Exit::usage, "E_RANKS_SETTING",
           cat("`sync_every` ", spec.distribution.sync_every, ": ", flag, ' ', steps, " is no multiple of it"),
           "evaluations and checkpoints need a step after which all ranks have the same weights");
  }
}

DType grad_reduce_dtype(const DistributionSpec& distribution, const LossScaleConfig& scale) {
  if (distribution.grad_reduce_dtype == "fp16" && scale.mode == LossScaleConfig::Mode::off)
    fail(Exit::usage, "E_USAGE",
         "`grad_reduce_dtype` fp16: without a loss scale small gradients would become zero in fp16",
         "`grad_reduce_dtype` bf16, or train with `use_fp16`");
  return dtype_from_name(distribution.grad_reduce_dtype);
}

}  // namespace

TrainerConfig trainer_config(const RunSpec& spec, const PrecisionPlan& plan, const Objective& objective,
                             const TrainData& data) {
  TrainerConfig c;
  c.objective = objective;
  c.optimizer = optimizer_config(spec);
  cache_gradients(spec.schedule, c);
  c.scale = scale_config(spec.precision, plan);
  c.sampler = sampler_options(spec, *data.train, data.text);
  c.sampler.whole_batches = data.whole_batches;
  if (data.train->size() == 1) {  // the data are a file of tensors that is one whole batch
    c.sampler.batch_size = 1;
    c.sampler.in_tokens = false;
  }
  c.sampler.ranks = spec.distribution.ranks;
  if (spec.distribution.sync_bn && *spec.model.batchnorm != "train")
    fail(Exit::usage, "E_USAGE", "`sync_bn` is about batch statistics, which `batchnorm` train computes",
         "give `batchnorm` train, or leave `sync_bn` out");
  c.sampler.every_rank = synchronizes(spec.distribution, spec.model);
  if (c.sampler.every_rank && spec.data.text.in_tokens)
    fail(Exit::usage, "E_RANKS_SETTING",
         "`sync_bn` needs rows of every micro-batch on every rank, `in_tokens` cannot promise them",
         "leave one of them out");
  if (spec.distribution.shard_optimizer) c.optimizer.shards = spec.distribution.ranks;
  c.optimizer.validate();
  if (names_average(spec.output.export_weights)) average_named(spec.optimization, spec.output.export_weights);
  if (data.train->size() < spec.distribution.ranks) {
    fail(Exit::usage, "E_RANKS_SETTING",
         cat(spec.distribution.ranks, " ranks share ", data.train->size(), " training samples"),
         "a file of tensors may be cut into samples; otherwise take fewer ranks");
  }
  const Sampler sampler = make_sampler(*data.train, c.sampler);
  c.max_steps = spec.schedule.max_steps >= 0 ? spec.schedule.max_steps  // 0: the run only imports and exports
                                             : sampler.windows_of(spec.schedule.epochs);
  c.schedule = schedule_config(spec, c.max_steps, sampler);
  average_at_end(spec.optimization, c);
  if (spec.schedule.lr_range_test > 0) {
    if (spec.distribution.ranks > 1)
      fail(Exit::usage, "E_RANKS_SETTING", "`lr_range_test` needs the losses of a single rank", "leave `ranks` out");
    c.max_steps = spec.schedule.lr_range_test;
    c.schedule = lr_range_schedule(c.max_steps, c.schedule.settings);
    c.initial_eval = c.saves = false;
  }
  if (const auto first = Schedule(c.schedule).momentum(0)) c.optimizer.settings.*cycled_key(c.optimizer.rule) = *first;
  if (Plateau::asked(c.schedule) && !data.val)
    fail(Exit::usage, "E_USAGE", "`lr_scheduler` reduce_lr_on_plateau goes by evaluations, and there are none",
         "give `val` FILE, or `val_split` 0.1");
  c.eval_batch_size = spec.evaluation_rows();
  c.eval_steps = spec.evaluation.eval_steps;
  c.save_steps = spec.output.save_steps;
  c.save_strategy = saves_of(spec.output);
  c.save_total_limit = spec.output.save_total_limit;
  c.max_seconds = 60 * spec.schedule.max_minutes;
  c.max_consecutive_skips = spec.schedule.lr_range_test > 0 ? 0 : spec.precision.max_consecutive_skips;
  c.early_stopping_patience = spec.evaluation.early_stopping_patience;
  c.early_stopping_threshold = spec.evaluation.early_stopping_threshold;
  c.best_metric = spec.evaluation.metric_for_best_model;
  const auto classes = static_cast<int64_t>(objective.classes.size());
  if (c.best_metric == "auto") c.best_metric = best_metric(objective.task, objective.classes);
  require_applies(c.best_metric, classes, "`metric_for_best_model`");
  for (const std::string& gate : spec.evaluation.require)
    require_applies(parse_gate(gate)->metric, classes, "`require` " + gate);
  c.output_dir = spec.output.output_dir;
  c.inject_overflow = overflow_drill(spec.precision);
  c.overlap_sums = spec.distribution.overlap_grad_reduce;
  c.grad_reduce_dtype = grad_reduce_dtype(spec.distribution, c.scale);
  c.sync_every = spec.distribution.sync_every;
  check_local_steps(spec, c);
  c.fixed = resume_record(spec);
  return c;
}

}  // namespace amp
