// Verb train, the default: trains a model and writes model.onnx, metrics, checkpoints and run.json. Also implements
// --dry_run and --check_data, and prints the result of the learning-rate range test. In a distributed run only the root
// rank prints.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/message.h"
#include "base/sysinfo.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "run/check/check_data.h"
#include "run/export/run_memory.h"
#include "run/folder/run_files.h"
#include "run/prepare/memory.h"
#include "run/spec/spec.h"
#include "run/train/process_ranks.h"
#include "run/train/train.h"
#include "tools/cli/config_paths.h"
#include "tools/cli/error_line.h"
#include "tools/cli/flag_text.h"
#include "tools/junit.h"
#include "tools/progress.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

namespace {

// Returns a text for the summary: the share of time spent waiting for data; "" if it is below 2 %.
std::string waiting_text(const TrainResult& r) {
  const auto percent = r.seconds > 0 ? static_cast<int64_t>(100 * r.waited / r.seconds) : 0;
  return percent < 2 ? std::string() : cat(", ", percent, " % of it waiting for data");
}

void print_summary(const TrainReport& report, const std::string& val) {
  const TrainResult& r = report.result;
  if (r.initial && r.last) {
    const std::string metric = r.last->values.empty() ? "loss" : r.last->values[0].first;
    std::cout << metric << " on " << val << ": " << r.initial->value(metric) << " before, " << r.last->value(metric)
              << " after";
    const size_t told = std::min(r.last->brief, r.last->values.size());
    for (size_t i = 1; i < told; ++i)
      std::cout << (i == 1 ? " (" : ", ") << r.last->values[i].first << ' ' << r.last->values[i].second;
    std::cout << (told > 1 ? ")\n" : "\n");
    for (const std::string& line : group_table(r.last->group_column, r.last->groups, r.last->brief))
      std::cout << line << '\n';
  }
  std::cout << "speed: " << static_cast<int64_t>(per_second(r.samples, r.seconds)) << " samples/s, " << r.steps
            << " steps in " << format_duration(r.seconds) << waiting_text(r)
            << (r.skipped ? cat(", ", r.skipped, " skipped, because gradients were not finite") : std::string()) << '\n'
            << "peak memory: " << (peak_rss_bytes() >> 20) << " MiB\n"
            << "model: " << report.model << '\n'
            << (report.raw_rows.empty() ? std::string() : cat("raw rows of the table: ", report.raw_rows, "\n"))
            << "report: " << report.page << '\n';
}

// Returns the learning rate with 3 digits, because the curve of losses is not more exact.
std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", rate);
  return text;
}

void print_range(const LrRange& range, const std::string& folder) {
  const LrRange::Rates r = range.rates();
  std::cout << "learning-rate range test: " << range.seen() << " steps"
            << (range.over() ? ", until the loss diverged" : "") << '\n';
  if (r.valley > 0) {
    std::cout << "--lr " << rate_text(r.valley)
              << " two thirds down the longest descent of the loss (the usual choice), " << rate_text(r.steep)
              << " where it falls fastest, " << rate_text(r.minimum) << " a tenth of the rate of the lowest loss\n";
  } else {
    std::cout << "too few losses for a suggestion: a larger --lr_range_test, or another min_lr, max_lr\n";
  }
  std::cout << "curve: " << folder << "/" << kLrRangeFile << '\n';
}

// Prints the largest memory of the run and the phases in which it was reached.
void print_peak(const MemoryBill& bill, const std::vector<MemoryPhase>& phases) {
  const auto bytes = [](int64_t n) { return with_thousands(n) + " B"; };
  int64_t peak = 0;
  for (const MemoryPhase& p : phases) peak = std::max(peak, p.bytes);
  std::cout << (bill.device_memory ? "  the run's peak on the host: " : "  the run's peak: ") << bytes(peak)
            << " and the program's own, some 45 MB; the largest of:\n";
  for (const MemoryPhase& p : phases) {
    std::cout << "    " << p.name << ": " << bytes(p.bytes);
    if (p.name == "training" && bill.checkpoint_copy > 0)
      std::cout << " = " << bytes(p.bytes - bill.checkpoint_copy) << " + " << bytes(bill.checkpoint_copy)
                << ", the copy of a checkpoint while it is written (none is made where less is free)";
    std::cout << '\n';
  }
}

int dry_run(const RunSpec& spec, const Console& console) {
  const std::unique_ptr<PreparedRun> run = prepare(spec, {console.log(), {}, {}}, Mode::estimate);
  SessionOptions options = session_options(spec, Job::train, run->plan, console.log());
  const MemoryBill bill = memory_bill(options, run->graph(), run->config, run->data);
  std::cout << "memory on " << bill.device << ": " << cli::with_flags(bill.training.text()) << '\n';
  for (const std::string& t : bill.training.largest) std::cout << "  large: " << t << '\n';
  print_peak(bill, memory_phases(*run, options, bill));
  if (const auto& m = bill.device_memory) {
    std::cout << "  free on the device: " << with_thousands(m->free) << " of " << with_thousands(m->total)
              << " B; libraries hold " << with_thousands(m->opened) << " B already\n";
  }
  for (const auto& [name, bytes] : bill.choices)
    std::cout << "  training with --memory_budget: " << with_thousands(bytes) << " B, " << name << '\n';
  if (bill.room) std::cout << "  free under this process's limits: " << with_thousands(*bill.room) << " B\n";
  keep_budget(options, spec.device, run->graph(), run->config, run->data);
  require_room(options, run->graph(), run->config, run->data);
  return 0;
}

// Checks the data. Prints the report as text on standard error and as JSON on standard output. Returns the exit code.
int print_data_report(const RunSpec& spec, const Console& console) {
  const DataReport report = check_data(spec, console.log());
  for (const std::string& line : report.lines()) print_message(Level::info, cli::with_flags(line));
  std::cout << printable_json(cli::with_flags(report.json())) << '\n';
  return report.problems ? static_cast<int>(Exit::data) : 0;
}

int train_model(const cli::Options& opts, const Console& console, Junit& junit) {
  cli::require_files_of_config(opts);
  const RunSpec spec = spec_of(opts);
  if (opts.flag("check_data")) return print_data_report(spec, console);
  if (opts.flag("dry_run")) return dry_run(spec, console);
  Processes processes(spec.distribution, console.log(), [](const Error& e) { cli::print_error_line(std::cerr, e); });
  Host host = console.host();
  host.ranks = &processes.ranks();
  host.doing = [&processes](int64_t step, const char* phase) { processes.doing(step, phase); };
  if (!host.ranks->is_root()) {  // only the root rank prints the report
    host.log = {};
    host.progress = nullptr;
    console.hide_activities();
    junit.leave_out();
  }
  const TrainReport report = processes.guard([&] {
    const std::unique_ptr<PreparedRun> run = prepare(spec, host);
    return train(*run);
  });
  processes.end();
  if (!host.ranks->is_root()) return report.stopped ? stopped_exit(report.signal, report.saved) : 0;
  if (report.stopped) {
    if (report.saved)
      print_message(Level::info,
                    cat("stopped by ", cli::with_flags(report.signal_name), " after step ", report.result.steps));
    const int code = stopped_exit(report.signal, report.saved);
    if (code == static_cast<int>(Exit::stopped))
      fail(Exit::stopped, "E_STOPPED",
           cat("stopped by ", report.signal_name, "; a checkpoint contains all completed work"),
           "continue with `resume` auto");
    log_stopped(report.signal, report.saved);
    return code;
  }
  if (report.lr_range) {
    print_range(*report.lr_range, spec.output.output_dir);
    return 0;
  }
  print_summary(report, spec.data.val.empty() ? "the share held out" : spec.data.val);
  const Metrics* const last = report.result.last ? &*report.result.last : nullptr;
  junit.gates(gate_results(spec.evaluation.require, last));
  check_gates(spec.evaluation.require, last, "model.onnx was written all the same");
  return 0;
}

}  // namespace

int run_train(const cli::Options& opts, const Console& console) {
  Junit junit(opts.str("junit"), "train", console.log());
  return junit.record([&] { return train_model(opts, console, junit); });
}

static const RegisterVerb train_verb(cli::Verb::train, run_train);

}  // namespace amp
