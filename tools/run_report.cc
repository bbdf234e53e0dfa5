#include "tools/run_report.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/fs.h"
#include "base/simd.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "precision/plan_io.h"
#include "tools/cli/config.h"
#include "tools/cli/help.h"

namespace amp {

namespace {

nlohmann::json number(double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr); }

nlohmann::json metrics_json(const std::optional<Metrics>& m) {
  if (!m) return nullptr;
  nlohmann::json j = {{"loss", number(m->loss)}, {"samples", m->samples}};
  for (const auto& [name, value] : m->values) j[name] = number(value);
  return j;
}

std::string isa_name() { return cpu_isa() == Isa::v4 ? "x86-64-v4" : cpu_isa() == Isa::v3 ? "x86-64-v3" : "x86-64-v2"; }

void write_text(const std::string& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.commit();
}

// Whether the CPU multiplies in the plan's 16-bit type, and which type is worth it here.
std::string arithmetic(const PrecisionPlan& plan) {
  if (!plan.any_low()) return "";
  if (plan.low == DType::bf16 && cpu_has_bf16()) return "; products run in avx512_bf16";
  const std::string emulated =
      cat("; ", name_of(plan.low),
          " is emulated on this CPU (stored in 16 bits, computed in fp32): it saves memory, not time");
  return emulated + (plan.low == DType::f16 && cpu_has_bf16() ? "; --use_bf16 is the faster type here" : "");
}

double per_second(int64_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }

}  // namespace

void write_plan(const std::string& dir, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost& cost) {
  write_text(dir + "/precision_plan.json", plan_to_json(graph, plan, &cost));
}

void describe_start(Session& session, const PrecisionPlan& plan, const TrainerConfig& config, int64_t samples) {
  if (config.quiet) return;
  int64_t trainable = 0;
  for (const Chunk& c : session.layout().chunks()) trainable += c.frozen ? 0 : c.numel;
  int64_t low = 0;
  for (const Decision& d : plan.nodes) low += d.compute != Compute::f32;
  std::cerr << "model: " << with_thousands(session.layout().parameters() - session.statistic_elements())
            << " parameters, " << with_thousands(trainable) << " trainable"
            << (session.statistic_elements()
                    ? cat(", ", with_thousands(session.statistic_elements()), " running statistics")
                    : std::string())
            << '\n'
            << "precision: "
            << (plan.any_low() ? cat(low, " of ", plan.nodes.size(), " nodes in ", name_of(plan.low))
                               : std::string("fp32"))
            << (config.scale.mode == LossScaleConfig::Mode::off ? ", loss scale off"
                                                                : cat(", loss scale ", config.scale.init))
            << arithmetic(plan) << '\n'
            << "data: " << with_thousands(samples) << " samples, " << config.max_steps << " steps of "
            << config.sampler.batch_size << " x " << config.sampler.accumulation << '\n'
            << "memory: " << session.bill() << '\n';
}

void print_profile(const std::map<std::string, double>& seconds) {
  std::vector<std::pair<double, std::string>> rows;
  double total = 0;
  for (const auto& [op, s] : seconds) {
    rows.emplace_back(s, op);
    total += s;
  }
  std::sort(rows.rbegin(), rows.rend());
  std::cerr << "profile: the longest batch, milliseconds by operator, " << total * 1e3 << " in all\n";
  for (const auto& [s, op] : rows) std::cerr << "  " << std::setw(9) << s * 1e3 << "  " << op << '\n';
}

void print_profile(const UpdateProfile& u) {
  std::cerr << "profile: the update takes " << u.seconds * 1e3 << " ms for " << with_thousands(u.bytes) << " B, "
            << std::lround(u.share() * 100) << " % of the " << with_thousands(static_cast<int64_t>(u.copy_bytes_per_s))
            << " B/s of a copy\n";
}

double process_seconds() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // the program's name may hold anything
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 0; i < 19; ++i) rest >> word;
  double ticks = 0;
  timespec now{};
  if (!(rest >> ticks) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double verify_export(Session& session, const std::string& path, const Losses& losses, const Dataset& data,
                     const std::string& precision) {
  SamplerOptions o;
  o.order = Order::file;
  o.batch_size = std::min<int64_t>(8, data.size());
  Sampler sampler(data.size(), data.lengths(), o);
  const Tensors batch = to_tensors(load_window(data, sampler.next()).batches.at(0), nullptr);
  const Imported exported = import_model(path);
  Session other(exported.graph, {});
  std::vector<int> ours, theirs;
  for (const std::string& name : losses.outputs()) {
    ours.push_back(session.source().find(name));
    theirs.push_back(exported.graph.find(name));
    if (theirs.back() < 0) fail(Exit::internal, "E_EXPORT_CHECK", cat("the exported file has no output '", name, "'"));
  }
  const Tensors a = session.forward(ours, batch, true), b = other.forward(theirs, batch);
  double worst = 0, largest = 0;
  for (const std::string& name : losses.outputs()) {
    const std::vector<double> x = a.at(name).to_doubles(), y = b.at(name).to_doubles();
    for (size_t i = 0; i < x.size(); ++i) {
      const double d = std::abs(x[i] - y[i]);
      worst = std::isfinite(d) ? std::max(worst, d) : (std::isfinite(x[i]) ? INFINITY : worst);
      if (std::isfinite(x[i])) largest = std::max(largest, std::abs(x[i]));
    }
  }
  // The file keeps its own types: weights that it stores in 16 bits were rounded on the way out.
  bool rounded = precision != "fp32";
  for (const SourceValue& v : session.source().values)
    rounded |= v.kind == SourceKind::parameter && is_low(v.data.dtype());
  const double limit = (rounded ? 1e-2 : 1e-4) * largest + 1e-6;
  if (!(worst <= limit)) {
    fail(Exit::internal, "E_EXPORT_CHECK",
         cat("the exported model differs from the trained one by ", worst, " (limit ", limit, ")"),
         precision == "fp32" ? "please report this" : "export with --export_precision fp32");
  }
  return worst;
}

void write_run(const cli::Options& opts, const std::string& dir, const Imported& model, const PrecisionPlan& plan,
               const TrainerConfig& config, const TrainResult& r, const RunFacts& facts,
               const std::vector<std::string>& classes, bool finished) {
  nlohmann::json j = nlohmann::json::parse(cli::effective_config_json(opts));
  j["finished"] = finished;
  j["model_sha256"] = config.fixed.at("model");
  j["model_nodes"] = model.graph.nodes.size();
  j["labels"] = classes;
  j["precision"] = {{"dtype", plan.any_low() ? std::string(name_of(plan.low)) : "float32"},
                    {"fingerprint", plan.fingerprint},
                    {"warnings", plan.warnings}};
  j["initial_metrics"] = metrics_json(r.initial);
  j["final_metrics"] = metrics_json(r.last);  // of model.onnx
  j["metrics_as_trained"] = metrics_json(facts.as_trained);
  j["steps"] = {{"attempted", r.steps}, {"applied", r.applied}, {"skipped", r.skipped}, {"best", r.best_step}};
  j["timing"] = {{"train_seconds", r.seconds},
                 {"samples_per_s", per_second(r.samples, r.seconds)},
                 {"tokens_per_s", per_second(r.tokens, r.seconds)}};
  j["timing"]["first_step_seconds"] =
      facts.first_step_seconds ? number(*facts.first_step_seconds) : nlohmann::json(nullptr);
  j["peak_memory_bytes"] = peak_rss_bytes();
  if (facts.device_memory)
    j["device_memory"] = {{"peak_memory_bytes", facts.device_memory->peak},
                          {"library_bytes", facts.device_memory->opened}};
  if (facts.update) {
    j["update_profile"] = {{"seconds", facts.update->seconds},
                           {"bytes", facts.update->bytes},
                           {"copy_bytes_per_s", facts.update->copy_bytes_per_s}};
  }
  j["export_max_difference"] = facts.export_difference ? number(*facts.export_difference) : nlohmann::json(nullptr);
  j["machine"] = {{"isa", isa_name()}, {"threads", omp_get_max_threads()}, {"host", host_name()}};
  j["version"] = cli::version_text();
  j["finished_at"] = utc_timestamp();
  write_text(dir + "/run.json", j.dump(2) + "\n");
}

void print_summary(const std::string& path, const TrainResult& r, const std::string& val) {
  if (r.initial && r.last) {
    const std::string metric = r.last->values.empty() ? "loss" : r.last->values[0].first;
    std::cout << metric << " on " << val << ": " << r.initial->value(metric) << " before, " << r.last->value(metric)
              << " after";
    for (size_t i = 1; i < r.last->values.size(); ++i)
      std::cout << (i == 1 ? " (" : ", ") << r.last->values[i].first << ' ' << r.last->values[i].second;
    std::cout << (r.last->values.size() > 1 ? ")\n" : "\n");
  }
  std::cout << "speed: " << static_cast<int64_t>(per_second(r.samples, r.seconds)) << " samples/s, " << r.steps
            << " steps in " << format_duration(r.seconds)
            << (r.skipped ? cat(", ", r.skipped, " skipped by the loss scaler") : std::string()) << '\n'
            << "peak memory: " << (peak_rss_bytes() >> 20) << " MiB\n"
            << "model: " << path << '\n';
}

}  // namespace amp
