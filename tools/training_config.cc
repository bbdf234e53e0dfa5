#include "tools/training_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/checksum.h"
#include "base/text.h"
#include "data/tokenizer.h"
#include "importer/import.h"
#include "tools/cli/values.h"

namespace amp {

std::vector<std::pair<std::string, std::string>> input_files(const cli::Options& opts) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* flag : {"model", "train", "val", "vocab", "tokenizer", "teacher", "precision_plan"}) {
    if (!opts.has(flag)) continue;
    const bool folder = std::string_view(flag) == "tokenizer" && std::filesystem::is_directory(opts.str(flag));
    out.emplace_back(cat("--", flag), folder ? find_tokenizer(opts.str(flag)) : opts.str(flag));
  }
  return out;
}

namespace {

LossScaleConfig scale_config(const cli::Options& opts, const PrecisionPlan& plan) {
  // The plan's, where no flag says otherwise.
  LossScaleConfig c = plan.list.loss_scale;
  if (!plan.any_f16()) {
    c.mode = LossScaleConfig::Mode::off;
    return c;
  }
  if (opts.was_set("loss_scale")) c.mode = LossScaleConfig::Mode::dynamic;
  if (opts.str("loss_scale") != "dynamic") {
    c.mode = LossScaleConfig::Mode::fixed;
    c.init = cli::parse_number(opts.str("loss_scale")).value();
    return c;
  }
  const std::pair<const char*, double*> reals[] = {{"init_loss_scale", &c.init},
                                                   {"scale_growth_factor", &c.growth_factor},
                                                   {"scale_backoff_factor", &c.backoff_factor},
                                                   {"min_loss_scale", &c.min},
                                                   {"max_loss_scale", &c.max}};
  for (const auto& [flag, value] : reals) {
    if (opts.was_set(flag)) *value = opts.num(flag);
  }
  if (opts.was_set("scale_growth_interval"))
    c.growth_interval = static_cast<int32_t>(opts.integer("scale_growth_interval"));
  if (opts.was_set("scale_hysteresis")) c.hysteresis = static_cast<int32_t>(opts.integer("scale_hysteresis"));
  if (c.mode == LossScaleConfig::Mode::dynamic) c.init = std::clamp(c.init, c.min, c.max);
  return c;
}

OptimizerConfig optimizer_config(const cli::Options& opts) {
  OptimizerConfig c;
  c.rule = update_rule_from_name(opts.str("optimizer"));
  c.settings.beta1 = opts.num("adam_beta1");
  c.settings.beta2 = opts.num("adam_beta2");
  c.settings.eps = opts.num("adam_epsilon");
  c.settings.momentum = opts.num("momentum");
  c.settings.nesterov = opts.flag("nesterov");
  c.weight_decay = opts.num("weight_decay");
  c.clip_mode = clip_mode_from_name(opts.str("clip_mode"));
  c.max_grad_norm = opts.num("max_grad_norm");
  c.ema_decay = opts.num("ema_decay");
  c.validate();
  return c;
}

std::function<bool(int64_t)> overflow_drill(const cli::Options& opts) {
  const cli::StepRanges ranges = cli::parse_steps(opts.str("inject_overflow")).value_or(cli::StepRanges{});
  if (ranges.empty()) return nullptr;
  return [ranges](int64_t step) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return step >= r.first && step <= r.second; });
  };
}

// Settings by their values, files by their contents: where a file lies does not matter.
std::map<std::string, std::string> fixed_settings(const cli::Options& opts) {
  std::map<std::string, std::string> out = opts.fixed_settings();
  for (const auto& [flag, path] : input_files(opts)) {
    if (flag == "--model") {
      out["model"] = model_sha256(path);
      continue;
    }
    const FileSum sum = sum_of_file(path);
    out[flag.substr(2)] = sum.error ? path : cat(sum.size, " bytes of CRC-32C ", sum.crc32c);
  }
  return out;
}

}  // namespace

TrainerConfig trainer_config(const cli::Options& opts, const PrecisionPlan& plan, const Objective& objective,
                             const TrainData& data) {
  TrainerConfig c;
  c.objective = objective;
  c.optimizer = optimizer_config(opts);
  c.scale = scale_config(opts, plan);
  c.sampler = sampler_options(opts, data.text);
  if (data.train->size() == 1) c.sampler.batch_size = 1;  // a whole batch
  const Sampler sampler(data.train->size(), data.train->lengths(), c.sampler);
  const double epochs = opts.num("epochs");
  c.max_steps = opts.integer("max_steps") >= 0
                    ? opts.integer("max_steps")  // 0: import and export only
                    : static_cast<int64_t>(std::ceil(epochs * static_cast<double>(sampler.windows_per_epoch())));
  c.schedule.kind = schedule_from_name(opts.str("lr_scheduler"));
  c.schedule.lr = opts.num("lr");
  c.schedule.total_steps = c.max_steps;
  c.schedule.warmup_steps = resolve_warmup(opts.num("warmup_steps"), c.max_steps);
  c.eval_batch_size = opts.integer("eval_batch_size");
  c.eval_steps = opts.integer("eval_steps");
  c.save_steps = opts.integer("save_steps");
  c.save_total_limit = opts.integer("save_total_limit");
  c.max_consecutive_skips = opts.integer("max_consecutive_skips");
  c.logging_steps = opts.integer("logging_steps");
  c.early_stopping_patience = opts.integer("early_stopping_patience");
  c.best_metric = opts.str("metric_for_best_model");
  if (c.best_metric == "auto") c.best_metric = best_metric(objective.task, objective.classes);
  c.output_dir = opts.str("output_dir");
  c.inject_overflow = overflow_drill(opts);
  c.quiet = opts.flag("quiet");
  c.fixed = fixed_settings(opts);
  return c;
}

}  // namespace amp
