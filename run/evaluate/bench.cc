// The verb bench: prepares a run as training would, times its step per kernel (trainer/compile/step_profile.h) and
// compares with the measured peak of the CPU's multiply-add units. Without training data a synthetic batch is written
// to a temporary file, so that the same code path reads it.
#include "run/evaluate/bench.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/cpu/gemm/fma_peak.h"
#include "base/activity.h"
#include "base/fs.h"
#include "base/remove_quietly.h"
#include "base/safetensors.h"
#include "base/temporary.h"
#include "run/data/data.h"
#include "run/data/synthetic_data.h"
#include "run/model/fixed_shapes.h"
#include "run/model/operator_advice.h"
#include "run/prepare/losses.h"
#include "run/prepare/memory.h"
#include "run/prepare/prepare.h"
#include "run/report/report.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// A temporary folder for a data file, removed by the destructor.
class Scratch {
 public:
  Scratch() : path_(make()), kept_(path_) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { remove_quietly(path_.c_str()); }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  static std::string make() {
    std::string name = (std::filesystem::temp_directory_path() / "onnx-amp-bench-XXXXXX").string();
    if (!::mkdtemp(name.data())) storage_error("cannot create", name, errno);
    return name;
  }
  std::string path_;
  TemporaryPath kept_;
};

// Returns the settings with a synthetic data file that has the shapes of the model's inputs.
RunSpec with_synthetic_data(const RunSpec& given, const std::string& path, const Log& log) {
  RunSpec spec = given;
  Imported model = open_model(spec, Job::check, {});
  SourceGraph& g = model.graph;
  const SyntheticShape shape{spec.schedule.batch_size,
                             *spec.data.text.max_seq_len > 0 ? *spec.data.text.max_seq_len : 128};
  Losses losses = choose_losses(spec.model, spec.objective, g);
  require_known_operators(g, values_of(g, losses));
  fix_shapes(g, values_of(g, losses));
  const bool asked = !requested_losses(spec.objective).parts.empty();
  if (!asked && losses.parts.size() == 1 && losses.parts[0].kind == "cross_entropy" &&
      !is_of_classes(g, losses.parts[0], shape)) {
    log.note(cat("no `loss`: '", losses.parts[0].outputs.at(0), "' holds no classes of rows, its loss is mse"));
    spec.objective.loss = std::vector<std::string>{"mse"};
    losses = choose_losses(spec.model, spec.objective, g);
  }
  if (!asked && losses.parts.size() == 1)
    spec.objective.loss = std::vector<std::string>{losses.parts[0].kind};  // the synthetic data fit this loss
  const Tensors data = synthetic_data(g, losses, shape, static_cast<uint64_t>(spec.device.seed));
  std::vector<NamedTensor> tensors;
  for (const auto& [name, t] : data) tensors.push_back({name, t});
  write_safetensors(path, tensors);
  spec.data.train = path;
  return spec;
}

void refuse(const DistributionSpec& distribution, const ScheduleSpec& schedule) {
  if (distribution.ranks > 1)
    fail(Exit::usage, "E_RANKS_SETTING", "a step of several ranks is not taken apart", "leave `ranks` out");
  if (schedule.gradient_cache)
    fail(Exit::usage, "E_USAGE", "the two passes of `gradient_cache` are not taken apart", "leave it out");
}

std::vector<Tensors> window_of(PreparedRun& run) {
  return std::vector<Tensors>(static_cast<size_t>(run.config.sampler.accumulation), first_batch(run));
}

}  // namespace

BenchReport bench_step(const RunSpec& given, int steps, const Log& log) {
  refuse(given.distribution, given.schedule);
  BenchReport out;
  out.synthetic = given.data.train.empty();
  std::optional<Scratch> scratch;
  if (out.synthetic) scratch.emplace();
  const RunSpec spec = out.synthetic ? with_synthetic_data(given, scratch->file("synthetic.safetensors"), log) : given;
  const std::unique_ptr<PreparedRun> run = prepare(spec, {log, {}, {}}, Mode::estimate);
  SessionOptions options = session_options(run->spec, Job::train, run->plan, log);
  keep_budget(options, run->spec.device, run->graph(), run->config, run->data);
  require_room(options, run->graph(), run->config, run->data);
  Session session(run->graph(), options);
  apply_groups(run->ready.groups, session.layout());
  const Losses& losses = run->config.objective.losses;
  const std::vector<Tensors> window = window_of(*run);
  session.prepare(losses, window.at(0));
  release_parameters(run->ready.model);
  const Activity timing(cat("timing ", 2 * steps, " steps"));
  out.step = profile_step(session, run->config.optimizer, run->config.scale, losses, window, steps);
  out.device = session.device().description();
  out.isa = isa_name(cpu_isa());
  out.batch = shapes_of(window.at(0));
  if (!session.device().traits().host_memory) return out;
  out.peak = cpu::fma_peak(out.step.threads);
  out.peak_of_one = out.step.threads == 1 ? out.peak : cpu::fma_peak(1);
  out.bf16_peak = cpu::fma_peak(out.step.threads, true);
  return out;
}

std::vector<KindTime> by_operator(const StepProfile& step) {
  std::map<std::string, KindTime> kinds;
  for (const NodeTime& n : step.nodes) {
    KindTime& k = kinds[n.op];
    const auto calls = static_cast<double>(n.calls);
    k.op = n.op;
    k.calls += n.calls;
    k.work.flops += n.work.flops * calls;
    k.work.read += n.work.read * n.calls;
    k.work.written += n.work.written * n.calls;
    k.seconds += n.seconds;
  }
  std::vector<KindTime> out;
  for (const auto& [op, k] : kinds) out.push_back(k);
  std::stable_sort(out.begin(), out.end(), [](const KindTime& a, const KindTime& b) { return a.seconds > b.seconds; });
  return out;
}

// Writes Google's "Trace Event Format": complete events (ph X) in microseconds, nested by time on one thread.
std::string chrome_trace(const BenchReport& r) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"ph", "M"}, {"pid", 1}, {"tid", 1}, {"name", "process_name"}, {"args", {{"name", r.device}}}});
  int64_t step = 0;
  for (const StepSpan& s : r.step.spans) {
    nlohmann::json e = {{"ph", "X"}, {"pid", 1}, {"tid", 1}, {"ts", s.begin * 1e6}, {"dur", s.seconds * 1e6}};
    switch (s.kind) {
      case StepSpan::step:
        e["name"] = cat("step ", ++step);
        e["cat"] = "step";
        break;
      case StepSpan::micro_batch:
        e["name"] = "micro-batch";
        e["cat"] = "micro-batch";
        break;
      case StepSpan::update:
        e["name"] = "update";
        e["cat"] = "update";
        e["args"] = {{"bytes", r.step.update_bytes}};
        break;
      case StepSpan::kernel: {
        const NodeTime& n = r.step.nodes.at(static_cast<size_t>(s.node));
        e["name"] = n.op;
        e["cat"] = n.role.empty() ? "kernel" : n.role;
        e["args"] = {{"node", n.name},
                     {"operands", n.operands},
                     {"flops", n.work.flops},
                     {"bytes", n.work.bytes()},
                     {"gflop_per_s", n.work.flops / s.seconds / 1e9}};
        break;
      }
    }
    events.push_back(std::move(e));
  }
  return nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace amp
