// Plans a sweep. A run's command line is the sweep's command line plus the run's values. It is parsed and checked here
// in the same way as in the run's process, so that a mistake is reported before the first run. It does not repeat
// settings from the environment and from --config, because the run's process reads them itself.
#include "tools/sweep_plan.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/folder/run_files.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "tools/cli/other_trainers.h"
#include "tools/spec_of.h"

namespace amp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Returns whether a setting belongs to the sweep as a whole: its folder, the comparison of runs, the definition of
// runs.
bool of_sweep(std::string_view name) {
  return one_of(name, {"output_dir", "resume", "overwrite", "require", "metric_for_best_model", "lr_range_test"});
}

const Setting& swept_setting(const std::string& key) {
  const std::optional<cli::Found> found = cli::find_flag(key);
  if (!found) {
    const std::string near = cli::nearest_flag(key, cli::Verb::train);
    fail(Exit::usage, "E_SWEEP", cat("'", printable(key), "' is no setting"),
         near.empty() ? "see the flags of 'train'" : cat("did you mean '", near, "'?"));
  }
  const cli::Flag& flag = *found->flag;
  if (found->negated || (found->alias && (found->alias->is_switch() || found->alias->fraction)))
    fail(Exit::usage, "E_SWEEP", cat("'", printable(key), "' is not a name for a list of values"),
         cat("use the setting '", flag.name, "'"));
  if (!flag.setting || !cli::has(flag.verbs, cli::Verb::train) || of_sweep(flag.name))
    fail(Exit::usage, "E_SWEEP", cat("`", flag.name, "` cannot differ between the runs of a sweep"),
         "give it once, as a flag, if 'sweep' reads it");
  return *flag.setting;
}

ordered_json space_json(const std::string& text) {
  const bool inside = text.starts_with('{');
  const bool yaml = text.ends_with(".yaml") || text.ends_with(".yml");
  if (!inside && !yaml && !text.ends_with(".json") && (!path_exists(text) || is_dir(text))) return sweep_json(text);
  const std::string content = inside ? text : std::string(read_file(text).text());
  if (yaml) return cli::yaml_to_json(content, text);
  ordered_json out;
  if (json_excess(content, true).empty()) out = ordered_json::parse(content, nullptr, false, true);
  if (!out.is_object())
    fail(Exit::usage, "E_SWEEP", cat(inside ? "the search space" : printable(text), " is no JSON object"),
         "write {\"lr\": [1e-5, 3e-5], \"batch_size\": [16, 32]}");
  return out;
}

std::vector<std::string> texts_of_value(const SettingValue& v) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&v)) return *list;
  if (const bool* on = std::get_if<bool>(&v)) return {*on ? "true" : "false"};
  if (const auto* n = std::get_if<int64_t>(&v)) return {std::to_string(*n)};
  if (const double* x = std::get_if<double>(&v)) return {number_text(*x)};
  return {std::get<std::string>(v)};
}

void add_flag(std::vector<std::string>& words, std::string_view name, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) words.push_back(cat("--", name, "=", text));
}

// Returns the command line of a run: the words of the sweep's command line that all runs share, then the run's values.
std::vector<std::string> words_of(const cli::Options& opts, const SweepTrial& trial) {
  const auto swept = [&](std::string_view name) {
    return std::any_of(trial.values.begin(), trial.values.end(), [&](const auto& v) { return v.first->name == name; });
  };
  std::vector<std::string> words;
  const bool positional = !opts.positional.empty() && !swept("model") && !opts.positional[0].starts_with('-');
  if (positional) words = {"train", opts.positional[0]};
  for (const cli::Flag& f : cli::flags()) {
    const bool given = cli::has(f.verbs, opts.verb) && opts.source(f.name) == cli::Source::command_line;
    if (!given || !cli::has(f.verbs, cli::Verb::train) || swept(f.name)) continue;
    if ((f.name == "model" && positional) ||
        one_of(f.name, {"output_dir", "resume", "overwrite", "require", "quiet", "log_format"}))
      continue;
    add_flag(words, f.name, texts_of_value(opts.value(f.name)));
  }
  for (const auto& [setting, texts] : trial.values) add_flag(words, setting->name, texts);
  return words;
}

// Parses and checks the command line of a run, and returns its settings.
RunSpec checked_spec(const std::vector<std::string>& words) {
  std::vector<const char*> arguments{"onnx-amp-finetune"};
  for (const std::string& w : words) arguments.push_back(w.c_str());
  RunSpec spec = spec_of(cli::parse_command_line(static_cast<int>(arguments.size()), arguments.data(), environ));
  check_settings(spec, Job::train);
  if (spec.schedule.lr_range_test > 0)
    fail(Exit::usage, "E_SWEEP", "`lr_range_test` trains no model to compare", "run it without 'sweep'");
  if (spec.data.val.empty() && *spec.data.val_split == 0)
    fail(Exit::usage, "E_SWEEP", "a sweep compares its runs on validation data, and there is none",
         "add `val` FILE, or `val_split` 0.1");
  return spec;
}

// Settings that a run may change when it is resumed. A run that has ended must not change them, because they decide its
// result.
constexpr const char* kAlsoSame[] = {"model",      "train",          "val",   "epochs",    "max_steps",
                                     "eval_steps", "export_weights", "dtype", "limit_val", "early_stopping_patience"};

json record_of(const std::string& folder) {
  const std::string path = folder + "/" + kSweepRecord;
  if (!path_exists(path)) return nullptr;
  json record = parse_json(read_file(path).text());
  if (!record.is_object() || !record.value("runs", json()).is_array())
    fail(Exit::usage, "E_SWEEP_CHANGED", cat(printable(path), " cannot be read"),
         "start the sweep again with `overwrite`");
  return record;
}

std::string text_member(const json& object, const char* name) {
  const json v = object.is_object() ? object.value(name, json()) : json();
  return v.is_string() ? v.get<std::string>() : std::string();
}

// Sets the state of a run from the record of an earlier start of the sweep. The run's settings must be the same as
// then. If the sweep no longer prunes, pruned runs are continued.
void take_state(SweepRun& run, const json& before, bool prunes) {
  const json same = before.value("same", json());
  for (const auto& [name, value] : run.same.items()) {
    const json earlier = same.is_object() ? same.value(name, json()) : json();
    if (earlier.is_null() || earlier == value) continue;
    fail(Exit::usage, "E_SWEEP_CHANGED",
         cat("`", name, "` of the run ", run.trial.name, " was ", printable(earlier.dump()), " and is now ",
             printable(value.dump())),
         "continue with the settings of the first start, or choose another `output_dir`");
  }
  const json step = before.value("step", json());
  if (text_member(before, "state") == "finished") run.state = SweepRun::State::finished;
  if (text_member(before, "state") != "pruned" || !step.is_number_integer() || !prunes) return;
  run.reason = text_member(before, "reason");
  run.state = SweepRun::State::pruned;
  run.pruned_at = step.get<int64_t>();
}

void refuse_others(const SweepPlan& plan) {
  const std::string hint = "choose another `output_dir`";
  if (is_run_folder(plan.folder))
    fail(Exit::usage, "E_OUTPUT_EXISTS", cat("'", printable(plan.folder), "' holds a single run"), hint);
  for (const char* name : {"report.html", kSweepTable}) {
    if (path_exists(plan.folder + "/" + name))
      fail(Exit::usage, "E_OUTPUT_FOREIGN",
           cat("'", printable(plan.folder), "' has a file ", name, " that no sweep is known to have written"), hint);
  }
}

}  // namespace

SweepPlan plan_sweep(const cli::Options& opts) {
  SweepPlan plan;
  plan.folder = opts.str("output_dir");
  const SweepSpace space = sweep_space(space_json(opts.str("sweep")), swept_setting);
  for (SweepTrial& trial :
       sweep_trials(space, opts.integer("sweep_trials"), static_cast<uint64_t>(opts.integer("seed")))) {
    SweepRun run;
    run.folder = plan.folder + "/" + trial.name;
    plan.words.push_back(words_of(opts, trial));
    try {
      const RunSpec spec = checked_spec(plan.words.back());
      run.same = same_settings(spec);
      for (const char* name : kAlsoSame) run.same[name] = value_text(value_of(spec, setting_named(name)));
    } catch (Error& e) {
      e.at(cat("in the run ", trial.name));
      throw;
    }
    run.trial = std::move(trial);
    plan.runs.push_back(std::move(run));
  }
  return plan;
}

std::unique_ptr<DirLock> open_sweep_folder(SweepPlan& plan, const cli::Options& opts) {
  const std::string& resume = opts.str("resume");
  const bool overwrite = opts.flag("overwrite");
  if (resume != "none" && resume != "auto")
    fail(Exit::usage, "E_SWEEP", "a sweep has no checkpoint", "continue it with `resume` auto");
  if (resume != "none" && overwrite)
    fail(Exit::usage, "E_SWEEP", "`resume` and `overwrite` contradict", "give one of them");
  if (record_of(plan.folder).is_null()) {
    refuse_others(plan);
  } else if (resume == "none" && !overwrite) {
    fail(Exit::usage, "E_OUTPUT_EXISTS", cat("'", printable(plan.folder), "' holds a sweep already"),
         "continue it with `resume` auto, or replace it with `overwrite`");
  }
  ensure_dir(plan.folder);
  auto lock = std::make_unique<DirLock>(plan.folder);
  const json record = record_of(plan.folder);
  const auto known = [&](const std::string& name) {
    const json runs = record.is_null() ? json::array() : record["runs"];
    const auto found =
        std::find_if(runs.begin(), runs.end(), [&](const json& r) { return text_member(r, "name") == name; });
    return found == runs.end() ? json() : *found;
  };
  for (SweepRun& run : plan.runs) {
    const json before = known(run.trial.name);
    if (before.is_null() && is_run_folder(run.folder) && !overwrite)
      fail(Exit::usage, "E_OUTPUT_EXISTS", cat("'", printable(run.folder), "' holds a run that is not of this sweep"),
           "choose another `output_dir`");
    if (resume == "auto" && !before.is_null()) take_state(run, before, opts.str("sweep_prune") != "none");
    if (overwrite) remove_run(run.folder);
  }
  return lock;
}

void write_sweep_record(const SweepPlan& plan) {
  static constexpr const char* kStates[] = {"waiting", "running", "finished", "pruned", "failed", "stopped"};
  json runs = json::array();
  for (const SweepRun& run : plan.runs) {
    json r = {{"name", run.trial.name}, {"state", kStates[static_cast<size_t>(run.state)]}, {"same", run.same}};
    for (const auto& [setting, texts] : run.trial.values) r["values"][std::string(setting->name)] = join(texts, ",");
    if (run.state == SweepRun::State::pruned) r["step"] = run.pruned_at;
    if (run.state == SweepRun::State::failed) r["exit"] = run.exit_code;
    if (!run.reason.empty()) r["reason"] = run.reason;
    runs.push_back(std::move(r));
  }
  FileWriter file(plan.folder + "/" + kSweepRecord);
  file.write(json{{"runs", runs}}.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  file.commit();
}

}  // namespace amp
