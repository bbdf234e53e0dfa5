// Verb sweep: trains once for each combination of settings, in child processes, and compares the runs. Pruning depends
// only on the lines of each run's eval.jsonl and their order, not on when this process reads them. If a run was pruned
// at a step, its results at that step are used, even if its process trained further.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "base/message.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "run/folder/output_folder.h"
#include "run/prepare/objective.h"
#include "run/report/report_page.h"
#include "run/sweep/pruning.h"
#include "run/sweep/results.h"
#include "run/train/process_ranks.h"
#include "run/train/stop.h"
#include "tools/cli/flag_text.h"
#include "tools/sweep_plan.h"
#include "tools/sweep_processes.h"
#include "tools/verbs.h"

namespace amp {

namespace {

using State = SweepRun::State;
constexpr int kLockedStarts = 30;  // after a sweep is killed, its processes may hold their folders for seconds

std::string log_of(const SweepRun& run) { return run.folder + "/log.txt"; }

// Returns the error in a run's output after its first `from` bytes: the text from the last line that begins with
// "error: " to the end.
std::string last_error(const SweepRun& run, int64_t from) {
  std::ifstream in(log_of(run));
  in.seekg(from);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("error: ")) out.clear();
    if (!out.empty() || line.starts_with("error: ")) out += line + "\n";
  }
  return out;
}

int64_t size_of(const std::string& file) {
  std::error_code none;
  const auto size = std::filesystem::file_size(file, none);
  return none ? 0 : static_cast<int64_t>(size);
}

class Sweep {
 public:
  Sweep(SweepPlan& plan, const cli::Options& opts, const Console& console)
      : plan_(plan),
        log_(console.log()),
        jobs_(static_cast<size_t>(opts.integer("sweep_jobs"))),
        method_(opts.str("sweep_prune") == "median"    ? Pruning::median
                : opts.str("sweep_prune") == "halving" ? Pruning::halving
                                                       : Pruning::none),
        examined_(plan.runs.size()),
        starts_(plan.runs.size()),
        log_from_(plan.runs.size()),
        processes_(opts.integer("sweep_jobs")) {}

  const std::string& first_error() const { return first_error_; }  // error text of the first run that failed

  // Trains all runs. Returns the stop signal that ended the sweep early, or 0.
  int run() {
    while (true) {
      while (processes_.stop_signal() == 0 && processes_.running() < jobs_ && next_ < plan_.runs.size()) begin(next_++);
      if (processes_.running() == 0) break;
      const std::vector<SweepProcesses::Ended> ended = processes_.wait(method_ == Pruning::none ? 5 : 0.2);
      for (size_t i = 0; i < plan_.runs.size(); ++i) {
        if (plan_.runs[i].state == State::running && apply_pruning(i)) processes_.stop(i);
      }
      for (const SweepProcesses::Ended& e : ended) end(e);
    }
    return processes_.stop_signal();
  }

 private:
  std::string title(size_t i) const { return cat("[", i + 1, "/", plan_.runs.size(), "] ", plan_.runs[i].trial.name); }

  // Starts a run, unless an earlier start of the sweep has already completed it.
  void begin(size_t i) {
    SweepRun& run = plan_.runs[i];
    if (run.state == State::finished || run.state == State::pruned) {
      log_.info(cat(title(i), ": ", state_text(run), " before"));
      return;
    }
    if (is_dir(run.folder)) finish_interrupted(run.folder);
    if (!apply_pruning(i)) {
      if (read_progress(run.folder).finished) {
        finished(i);
      } else {
        start(i);
      }
    }
    write_sweep_record(plan_);
  }

  void start(size_t i) {
    SweepRun& run = plan_.runs[i];
    ensure_dir(run.folder);
    std::vector<std::string> words = plan_.words[i];
    // The log must have both the text of an error, in which the sweep finds the reason, and the error's JSON line.
    for (const char* word : {"--resume=auto", "--overwrite=false", "--log_format=auto"}) words.emplace_back(word);
    words.push_back("--output_dir=" + run.folder);
    log_from_[i] = size_of(log_of(run));
    processes_.start(i, words, log_of(run));
    run.state = State::running;
    run.reason.clear();
    if (starts_[i]++ == 0) log_.info(title(i));
  }

  void finished(size_t i) {
    SweepRun& run = plan_.runs[i];
    run.state = State::finished;
    const RunProgress p = read_progress(run.folder);
    const auto value = p.end.is_object() ? p.end.find(p.metric) : p.end.end();
    log_.info(cat(title(i), ": finished after ", p.steps, " steps",
                  p.end.is_object() && value != p.end.end() ? cat(", ", p.metric, " ", value->dump()) : ""));
  }

  // Applies the pruning rule to the new evaluations of a run. Returns whether the run is pruned. The evaluation after
  // the last step does not prune, because the run is then complete.
  bool apply_pruning(size_t i) {
    if (method_ == Pruning::none) return false;
    SweepRun& run = plan_.runs[i];
    const RunProgress progress = read_progress(run.folder);
    const MetricCurve curve = progress.curve();
    for (; examined_[i] < curve.size(); ++examined_[i]) {
      if (progress.planned > 0 && curve[examined_[i]].first >= progress.planned) continue;
      const auto reason = pruned(method_, curve, examined_[i], others(i), progress.lower_is_better());
      if (!reason) continue;
      run.state = State::pruned;
      run.pruned_at = curve[examined_[i]].first;
      run.reason = *reason;
      log_.info(cat(title(i), ": pruned: ", progress.metric, ": ", run.reason));
      return true;
    }
    return false;
  }

  // Returns the curves with which a run is compared: those of earlier runs if the sweep is sequential, else those of
  // all runs.
  std::vector<MetricCurve> others(size_t i) const {
    std::vector<MetricCurve> out;
    for (size_t k = 0; k < (jobs_ == 1 ? i : plan_.runs.size()); ++k) {
      const SweepRun& run = plan_.runs[k];
      if (k == i || run.state == State::waiting) continue;
      MetricCurve curve = read_progress(run.folder).curve();
      if (run.state == State::pruned) {
        const auto after = [&](const auto& e) { return e.first > run.pruned_at; };
        curve.erase(std::find_if(curve.begin(), curve.end(), after), curve.end());
      }
      out.push_back(std::move(curve));
    }
    return out;
  }

  void end(const SweepProcesses::Ended& e) {
    SweepRun& run = plan_.runs[e.run];
    if (run.state == State::pruned) {
      // Nothing to do: the run was stopped, or it had ended before the signal arrived.
    } else if ((e.code == 0 || e.code == static_cast<int>(Exit::gate)) && read_progress(run.folder).finished) {
      finished(e.run);
    } else if (processes_.stop_signal() != 0 || e.code == static_cast<int>(Exit::stopped)) {
      run.state = State::stopped;
      log_.info(cat(title(e.run), ": stopped"));
    } else if (e.code == static_cast<int>(Exit::locked) && starts_[e.run] < kLockedStarts) {
      ::sleep(1);
      start(e.run);
      return;
    } else {
      failed(e);
    }
    write_sweep_record(plan_);
  }

  void failed(const SweepProcesses::Ended& e) {
    SweepRun& run = plan_.runs[e.run];
    run.state = State::failed;
    run.exit_code = e.code;
    const std::string error = last_error(run, log_from_[e.run]);
    if (first_error_.empty()) first_error_ = error;
    run.reason = error.empty() ? e.signal != 0 ? "ended by " + signal_name(e.signal) : cat("exit ", e.code)
                               : error.substr(7, error.find('\n') - 7);
    log_.warning(cat(title(e.run), ": ", state_text(run), ": ", run.reason, "; ", log_of(run)));
  }

  SweepPlan& plan_;
  const Log log_;
  const size_t jobs_;
  const Pruning method_;
  std::vector<size_t> examined_;  // indexed by run: number of evaluations to which the pruning rule was applied
  std::vector<int> starts_;
  std::vector<int64_t> log_from_;  // indexed by run: size of the run's log when the run was started
  SweepProcesses processes_;
  size_t next_ = 0;
  std::string first_error_;
};

void write_file(const std::string& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.commit();
}

std::string page_of_sweep(const SweepTable& table) {
  std::vector<nlohmann::json> runs;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const SweepRun& run = *table.rows[i].run;
    if (!path_exists(run.folder + "/run.json")) continue;
    runs.push_back(ReportData(run.folder).read());
    if (run.state != State::finished) runs.back()["note"] = state_text(run);
    if (static_cast<int>(i) == table.best) runs.back()["note"] = "best";
  }
  return runs.empty() ? std::string() : page_of(page_data(std::move(runs), false));
}

void print_best(const SweepPlan& plan, const SweepTable& table) {
  const auto i = static_cast<size_t>(table.best);
  const SweepRun& run = *table.rows[i].run;
  std::cout << "best: " << run.trial.name << ", " << table.metrics[0] << ' ' << table.rows[i].values[0] << '\n'
            << "model: " << run.folder << "/model.onnx\n"
            << "command: onnx-amp-finetune";
  for (const std::string& word : plan.words[i]) {
    if (word != "train") std::cout << ' ' << cli::shell_word(word);
  }
  std::cout << " --output_dir=NEW_FOLDER\n";
}

// Prints the error in a run's log in the format of this process's messages. The log holds the error as text, followed
// by a JSON line.
void print_error_of_run(const std::string& error) {
  std::istringstream in(error);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("{\"id\":") ? errors_are_json() : errors_are_text())
      std::cerr << cat(printable_lines(line), "\n");
  }
}

// Applies the gates of --require to the best run.
void check_best(const cli::Options& opts, const SweepTable& table) {
  Metrics metrics;
  const RunProgress progress = read_progress(table.rows[static_cast<size_t>(table.best)].run->folder);
  metrics.loss = std::nan("");
  for (const auto& [name, value] : progress.end.items()) {
    if (!value.is_number()) continue;
    if (name == "loss") metrics.loss = value.get<double>();
    metrics.values.emplace_back(name, value.get<double>());
  }
  check_gates(opts.list("require"), &metrics, "of the best run; all files were written all the same");
}

// Prints a note if runs are not evaluated at equal steps, which pruning needs.
void note_steps(const SweepPlan& plan, const cli::Options& opts, const Log& log) {
  if (opts.str("sweep_prune") == "none") return;
  std::vector<int64_t> first;
  for (const SweepRun& run : plan.runs) {
    const MetricCurve curve = read_progress(run.folder).curve();
    if (!curve.empty()) first.push_back(curve[0].first);
  }
  if (!first.empty() && std::count(first.begin(), first.end(), first[0]) != static_cast<std::ptrdiff_t>(first.size()))
    log.note(
        "runs were evaluated at different steps, and only equal steps are compared for `sweep_prune`: set "
        "`eval_steps`");
}

// Trains all runs, with stop signals blocked. Returns the stop signal that arrived, or 0.
int train_all(SweepPlan& plan, const cli::Options& opts, const Console& console, std::string& first_error) {
  Sweep sweep(plan, opts, console);
  const int signal = sweep.run();
  first_error = sweep.first_error();
  return signal;
}

int run_sweep(const cli::Options& opts, const Console& console) {
  if (launched())
    fail(Exit::usage, "E_SWEEP", "a sweep starts its own processes, and a launcher started this one",
         "start it without a launcher; `gpus` gives each run several GPUs");
  SweepPlan plan = plan_sweep(opts);
  const std::unique_ptr<DirLock> lock = open_sweep_folder(plan, opts);
  console.log().info(cat("sweep: ", plan.runs.size(), " runs in ", plan.folder));
  const auto trials = static_cast<size_t>(opts.integer("sweep_trials"));
  if (plan.runs.size() < trials) console.log().note("the space has no more different runs");
  write_sweep_record(plan);
  std::string first_error;
  const int signal = train_all(plan, opts, console, first_error);
  write_sweep_record(plan);
  note_steps(plan, opts, console.log());
  const SweepTable table = sweep_table(plan.runs);
  write_file(plan.folder + "/" + kSweepTable, sweep_csv(table));
  const std::string page = page_of_sweep(table);
  if (!page.empty()) write_file(plan.folder + "/" + kReportFile, page);
  std::cout << printable_lines(sweep_text(table)) << "table: " << plan.folder << '/' << kSweepTable << '\n';
  if (!page.empty()) std::cout << "report: " << plan.folder << '/' << kReportFile << '\n';
  if (table.best >= 0) print_best(plan, table);
  const auto in_state = [&](State state) {
    return std::count_if(plan.runs.begin(), plan.runs.end(), [&](const SweepRun& r) { return r.state == state; });
  };
  if (signal != 0 || in_state(State::stopped) > 0)
    fail(Exit::stopped, "E_STOPPED",
         cat(signal != 0 ? "the sweep was stopped by " + signal_name(signal) : "runs were stopped before their end",
             ": ", in_state(State::finished) + in_state(State::pruned), " of ", plan.runs.size(), " runs are done"),
         "give the same command with `resume` auto to continue");
  if (table.best < 0) {
    const auto failed =
        std::find_if(plan.runs.begin(), plan.runs.end(), [](const SweepRun& r) { return r.state == State::failed; });
    if (failed == plan.runs.end()) fail(Exit::numerical, "E_DIVERGED", "no run ended with a finite metric to compare");
    print_error_of_run(first_error);
    return failed->exit_code;
  }
  check_best(opts, table);
  return 0;
}

}  // namespace

static const RegisterVerb sweep_verb(cli::Verb::sweep, run_sweep);

}  // namespace amp
