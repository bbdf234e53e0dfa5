// Log lines at the start of a training run, and run.json. The keys of run.json are read by the report page
// (run/report/page/page.js), by tests and by users' scripts: do not rename them.
#include "run/report/report.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/fs.h"
#include "base/simd.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "precision/plan_io.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "run/version.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

nlohmann::json finite_or_null(double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr); }

nlohmann::json metrics_json(const std::optional<Metrics>& m) {
  if (!m) return nullptr;
  nlohmann::json j = {{"loss", finite_or_null(m->loss)}, {"samples", m->samples}};
  for (const auto& [name, value] : m->values) j[name] = finite_or_null(value);
  if (!m->details.empty()) j.update(nlohmann::json::parse(m->details));
  return j;
}

// Returns the names of the metrics that summaries show. `metric_for_best_model` comes first.
nlohmann::json reported_metrics(const EvaluationSpec& evaluation, const std::optional<Metrics>& m) {
  nlohmann::json names = nlohmann::json::array();
  if (!m) return names;
  if (evaluation.metric_for_best_model != "auto") names.push_back(evaluation.metric_for_best_model);
  for (size_t i = 0; i < std::min(m->brief, m->values.size()); ++i) {
    if (m->values[i].first != evaluation.metric_for_best_model) names.push_back(m->values[i].first);
  }
  if (names.empty()) names.push_back("loss");
  return names;
}

// Returns warnings about facts that make the result doubtful.
nlohmann::json warnings_of(const TrainResult& r) {
  nlohmann::json out = nlohmann::json::array();
  if (const std::string text = not_finite_losses_text(r); !text.empty()) out.push_back(text);
  const std::string text = r.last ? r.last->not_finite_text() : "";
  if (!text.empty()) out.push_back(text);
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.commit();
}

// Describes whether the CPU multiplies in the plan's 16-bit type, and which type is faster on it.
std::string arithmetic(const PrecisionPlan& plan) {
  if (!plan.any_low()) return "";
  if (plan.low == DType::bf16 && cpu_has_bf16()) return cat("; products run in ", bf16_instruction());
  const std::string emulated =
      cat("; ", name_of(plan.low),
          " is emulated on this CPU (stored in 16 bits, computed in fp32): it saves memory, not time");
  return emulated + (plan.low == DType::f16 && cpu_has_bf16() ? "; `use_bf16` is the faster type here" : "");
}

// Logs details for `verbose`: optimizer, schedule, and the nodes per operator class in 16 bits.
void describe_settings(const Session& session, const PrecisionPlan& plan, const TrainerConfig& config) {
  const Log& log = config.log;
  const ScheduleConfig& schedule = config.schedule;
  int64_t decayed = 0, tensors = 0;
  for (const Chunk& c : session.layout().chunks()) {
    tensors += !c.frozen;
    decayed += !c.frozen && !c.weight_decay;
  }
  log.detail(cat("optimizer: ", config.optimizer.rule, ", ", tensors, " tensors, weight decay ",
                 config.optimizer.weight_decay, " on ", decayed, " of them"));
  log.detail(cat("schedule: ", schedule.kind, ", peak ", schedule.lr, ", ",
                 resolve_warmup(schedule.warmup_steps, schedule.total_steps), " of ", schedule.total_steps,
                 " steps of warm-up"));
  std::map<std::string, std::pair<int64_t, int64_t>> by_class;  // counts of nodes in 16 bits and in fp32
  for (const Decision& d : plan.nodes) ++(d.compute == Compute::f32 ? by_class[d.cls].second : by_class[d.cls].first);
  for (const auto& [name, n] : by_class)
    log.detail(cat("precision: ", name, ": ", n.first, " nodes in ", name_of(plan.low), ", ", n.second, " in fp32"));
}

// Logs a note if in-batch negatives are only the rows of one micro-batch, or if `gradient_cache` has no effect.
void describe_negatives(const TrainerConfig& config) {
  const int64_t parts = config.sampler.accumulation * config.sampler.ranks;
  const std::vector<LossSpec> across = losses_across_rows(config.objective.losses).parts;
  if (config.gradient_cache && parts == 1)
    config.log.note(
        "`gradient_cache` has no effect where a step is one micro-batch: raise `gradient_accumulation_steps`");
  if (config.gradient_cache || parts == 1) return;
  if (std::any_of(across.begin(), across.end(), [](const LossSpec& s) { return loss_rule(s.kind).embeddings; }))
    config.log.note(cat("negatives are those of a micro-batch; `gradient_cache` takes those of a step's ", parts,
                        " micro-batches, in the same memory"));
}

}  // namespace

std::string not_finite_losses_text(const TrainResult& r) {
  if (r.losses_not_finite == 0) return "";
  return cat("W_NOT_FINITE: the training loss of ", r.losses_not_finite, " of ", r.steps, " steps is NaN or infinite");
}

void write_plan(const std::string& dir, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost& cost) {
  write_text(dir + "/precision_plan.json", plan_to_json(graph, plan, &cost));
}

void describe_start(Session& session, const PrecisionPlan& plan, const TrainerConfig& config, int64_t samples,
                    int64_t rows) {
  const Log& log = config.log;
  int64_t trainable = 0;
  for (const Chunk& c : session.layout().chunks()) trainable += c.frozen ? 0 : c.numel;
  int64_t low = 0;
  for (const Decision& d : plan.nodes) low += d.compute != Compute::f32;
  log.info(cat("model: ", with_thousands(session.layout().parameters() - session.statistic_elements()), " parameters, ",
               with_thousands(trainable), " trainable",
               session.statistic_elements()
                   ? cat(", ", with_thousands(session.statistic_elements()), " running statistics")
                   : std::string()));
  log.info(cat(
      "precision: ",
      plan.any_low() ? cat(low, " of ", plan.nodes.size(), " nodes in ", name_of(plan.low)) : std::string("fp32"),
      config.scale.mode == LossScaleConfig::Mode::off ? ", loss scale off" : cat(", loss scale ", config.scale.init),
      arithmetic(plan)));
  if (samples == 1 && rows > 1)
    log.info(cat("data: ", with_thousands(rows), " rows in one batch, ", config.max_steps, " steps"));
  else
    log.info(cat("data: ", with_thousands(samples), " samples, ", config.max_steps, " steps of ",
                 config.sampler.ranks > 1 ? cat(config.sampler.ranks, " ranks x ") : "", config.sampler.batch_size,
                 config.sampler.in_tokens ? " tokens x " : " x ", config.sampler.accumulation));
  log.info(cat("memory: ", session.memory_text()));
  describe_negatives(config);
  describe_settings(session, plan, config);
}

void log_profile(const std::map<std::string, double>& seconds, const Log& log) {
  std::vector<std::pair<double, std::string>> rows;
  double total = 0;
  for (const auto& [op, s] : seconds) {
    rows.emplace_back(s, op);
    total += s;
  }
  std::sort(rows.rbegin(), rows.rend());
  log.info(cat("profile: the longest batch, milliseconds by operator, ", total * 1e3, " in all"));
  for (const auto& [s, op] : rows) log.info(cat("  ", std::setw(9), s * 1e3, "  ", op));
}

void log_profile(const UpdateProfile& u, const Log& log) {
  log.info(cat("profile: the update takes ", u.seconds * 1e3, " ms for ", with_thousands(u.bytes), " B, ",
               std::lround(u.share() * 100), " % of the ", with_thousands(static_cast<int64_t>(u.copy_bytes_per_s)),
               " B/s of a copy"));
}

double per_second(int64_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }

double process_seconds() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The second field of the file is the program's name, which may contain spaces and parentheses.
  // So reading starts after it.
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 0; i < 19; ++i) rest >> word;
  double ticks = 0;
  timespec now{};
  if (!(rest >> ticks) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void write_run(const RunSpec& spec, const std::string& dir, const Imported& model, const PrecisionPlan& plan,
               const TrainerConfig& config, const TrainResult& r, const RunFacts& facts, const DataFacts& data,
               bool finished) {
  nlohmann::json j = {
      {"verb", "train"}, {"config", nlohmann::json::parse(settings_json(spec))}, {"sources", spec.sources}};
  j["finished"] = finished;
  j["model_sha256"] = config.fixed.at("model");
  j["model_nodes"] = model.graph.nodes.size();
  j["labels"] = data.classes.names;
  if (!data.class_source.empty()) j["labels_source"] = data.class_source;
  j["groups"] = nlohmann::json::parse(facts.groups);
  j["precision"] = {{"dtype", plan.any_low() ? std::string(name_of(plan.low)) : "float32"},
                    {"fingerprint", plan.fingerprint},
                    {"warnings", plan.warnings}};
  j["initial_metrics"] = metrics_json(r.initial);
  j["final_metrics"] = metrics_json(r.last);  // metrics of model.onnx
  j["warnings"] = warnings_of(r);
  j["told_metrics"] = reported_metrics(spec.evaluation, r.last);
  j["metrics_as_trained"] = metrics_json(facts.as_trained);
  j["best_metric"] = config.best_metric;
  j["steps"] = {{"planned", config.max_steps},
                {"attempted", r.steps},
                {"applied", r.applied},
                {"skipped", r.skipped},
                {"best", r.best_step}};
  j["timing"] = {{"train_seconds", r.seconds},
                 {"data_seconds", r.waited},
                 {"grad_reduce_seconds", r.sum_seconds},
                 {"grad_reduce_wait_seconds", r.sum_waited},
                 {"samples_per_s", per_second(r.samples, r.seconds)},
                 {"tokens_per_s", per_second(r.tokens, r.seconds)}};
  j["timing"]["first_step_seconds"] =
      facts.first_step_seconds ? finite_or_null(*facts.first_step_seconds) : nlohmann::json(nullptr);
  for (const SkippedRow& row : facts.skipped)
    j["skipped_rows"].push_back({{"file", row.file}, {"line", row.line}, {"reason", row.reason}});
  j["peak_memory_bytes"] = peak_rss_bytes();
  if (facts.device_memory)
    j["device_memory"] = {{"peak_memory_bytes", facts.device_memory->peak},
                          {"library_bytes", facts.device_memory->opened}};
  if (facts.update) {
    j["update_profile"] = {{"seconds", facts.update->seconds},
                           {"bytes", facts.update->bytes},
                           {"copy_bytes_per_s", facts.update->copy_bytes_per_s}};
  }
  j["export_max_difference"] =
      facts.export_difference ? finite_or_null(*facts.export_difference) : nlohmann::json(nullptr);
  std::error_code failed;  // "started_in" is the folder at which relative paths in "config" begin
  j["machine"] = {{"isa", isa_name(cpu_isa())},
                  {"threads", omp_get_max_threads()},
                  {"host", host_name()},
                  {"started_in", std::filesystem::current_path(failed).string()}};
  j["version"] = program_version();
  j["finished_at"] = utc_timestamp();
  write_text(dir + "/run.json", j.dump(2) + "\n");
}

}  // namespace amp
