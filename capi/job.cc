// The functions of onnx_amp.h that need no session: versions and whole jobs.
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "capi/last_error.h"
#include "capi/onnx_amp.h"
#include "capi/spec.h"
#include "run/run.h"
#include "run/version.h"

namespace {

nlohmann::ordered_json result_of(const amp::TrainReport& report) {
  nlohmann::ordered_json out{{"model", report.model},        {"report", report.page},
                             {"steps", report.result.steps}, {"applied", report.result.applied},
                             {"stopped", report.stopped},    {"saved", report.saved}};
  if (!report.result.last) return out;
  nlohmann::ordered_json metrics{{"loss", report.result.last->loss}};
  for (const auto& [name, value] : report.result.last->values) metrics[name] = value;
  out["metrics"] = metrics;
  return out;
}

void run_job(const char* spec, const onnx_amp_options& options) {
  const amp::Host host = amp::capi::host_of(options);
  const amp::RunSpec settings = amp::capi::spec_of_json(spec, host.log);
  if (settings.data.train.empty())
    amp::fail(amp::Exit::usage, "E_USAGE", "the spec names no `train` data", R"(add "train": "train.csv")");
  const std::unique_ptr<amp::PreparedRun> run = amp::prepare(settings, host);
  const amp::TrainReport report = amp::train(*run);
  if (options.result) {
    const std::string json = result_of(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    options.result(options.user, json.c_str());
  }
  if (report.stopped)
    amp::fail(amp::Exit::stopped, "E_STOPPED",
              amp::cat("stopped by ", report.signal_name, " after step ", report.result.steps,
                       report.saved ? "; a checkpoint holds all steps" : ", and no checkpoint holds the last steps"),
              "continue with `resume` auto");
  amp::check_gates(settings.evaluation.require, report.result.last ? &*report.result.last : nullptr,
                   "model.onnx was written all the same");
}

}  // namespace

const char* onnx_amp_version(void) {
  static const std::string version = [] {
    const std::string line = amp::program_version();  // the text ends with a newline
    const size_t at = line.rfind(' ') + 1;
    return line.substr(at, line.find('\n') - at);
  }();
  return version.c_str();
}

int32_t onnx_amp_abi_version(void) { return ONNX_AMP_ABI_VERSION; }

onnx_amp_status onnx_amp_run(const char* spec, const onnx_amp_options* options) {
  return amp::capi::guarded(amp::capi::thread_error(), [&] { run_job(spec, amp::capi::options_of(options)); });
}
