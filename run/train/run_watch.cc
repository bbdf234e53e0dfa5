// Observes a training run: rewrites report.html, appends to TensorBoard's event file, writes samples.json and serves
// the report. Observers must not end or change a run, so their errors become one warning (W_REPORT).
#include "run/train/run_watch.h"

#include <chrono>
#include <cmath>

#include "base/number_text.h"
#include "base/steady_seconds.h"
#include "run/evaluate/samples.h"
#include "run/folder/run_files.h"
#include "run/report/report_page.h"
#include "run/report/report_server.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

constexpr double kRenewal = 10;  // minimum seconds between two pages if there is no evaluation in between
constexpr double kShare = 0.01;  // largest share of the run's time for page and samples
// After this many seconds, page and samples are written even if that takes more than kShare.
constexpr double kLongest = 60;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

// Runs f() and turns an error into a warning: a full disk or moved data must not end the run.
template <class F>
void RunWatch::guarded(const char* what, const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    const std::string why = e.what();
    if (!warned_)
      run_.host.log.warning(cat("W_REPORT: ", what, " was not written (said once): ", why.substr(0, why.find('\n'))));
    warned_ = true;
  }
}

RunWatch::RunWatch(PreparedRun& run, std::string folder)
    : run_(run), folder_(std::move(folder)), samples_(run), data_(folder_) {
  if (run.spec.output.serve != "off") {
    server_ =
        std::make_unique<ReportServer>(folder_, static_cast<int>(parse_integer(run.spec.output.serve).value_or(0)));
    run.host.log.note(cat("the report is shown live at ", server_->address()));
  }
  run.config.on_line = [this](const StepLine& line) { observe(line); };
  run.config.on_eval = [this](int64_t step, const Metrics& m) { observe(step, m); };
  run.config.objective.worst = &worst_;
  renew(true);
}

RunWatch::~RunWatch() {
  if (unseen_) renew(true);  // an error ended the run before the last page
  run_.config.on_line = nullptr;
  run_.config.on_eval = nullptr;
  run_.config.objective.worst = nullptr;
}

void RunWatch::observe(const StepLine& l) {
  if (run_.spec.output.tensorboard) {
    const Scalar scalars[] = {{"train/loss", l.loss},
                              {"train/learning_rate", l.lr},
                              {"train/grad_norm", l.grad_norm},
                              {"train/loss_scale", l.loss_scale},
                              {"train/skipped", l.skipped ? 1.0 : 0.0},
                              {"train/epoch", l.epoch},
                              {"train/samples_per_second", l.samples_per_s},
                              {"train/tokens_per_second", l.tokens_per_s},
                              {"train/peak_memory_bytes", static_cast<double>(l.memory)}};
    event(l.step, l.tokens_per_s > 0 ? std::span(scalars) : std::span(scalars).first(7));
  }
  renew_if_due();
}

void RunWatch::observe(int64_t step, const Metrics& m) {
  if (run_.spec.output.tensorboard) {
    std::vector<Scalar> scalars{{"eval/loss", m.loss}};
    for (const auto& [name, value] : m.values) {
      if (std::isfinite(value)) scalars.push_back({"eval/" + name, value});  // a metric may be undefined for the data
    }
    event(step, scalars);
  }
  unseen_ = step;
  renew_if_due();
}

void RunWatch::evaluated(int64_t step) {
  unseen_.reset();
  guarded(kSamplesFile, [&] { samples_.write(worst_, step, folder_); });
}

void RunWatch::event(int64_t step, std::span<const Scalar> scalars) {
  guarded("TensorBoard's event file", [&] {
    if (!events_) events_.emplace(folder_, step, wall_time());
    events_->write(step, wall_time(), scalars);
  });
}

// Writing the files may take longer than an epoch. So the page may show a new evaluation later.
void RunWatch::renew_if_due() {
  const double least = std::min(cost_ / kShare, kLongest);
  if (steady_seconds() - renewed_ >= std::max(unseen_ ? 0 : kRenewal, least)) renew(true);
}

void RunWatch::trained() {
  if (unseen_) evaluated(*unseen_);
}

void RunWatch::renew(bool running) {
  const double began = steady_seconds();
  trained();
  guarded(kReportFile, [&] { write_report_page(folder_, data_, running); });
  renewed_ = steady_seconds();
  cost_ = renewed_ - began;
}

void RunWatch::stopped() { renew(false); }

void RunWatch::finished(const std::string& place) {
  events_.reset();
  folder_ = place;
  data_ = ReportData(place);
  renew(false);
  if (server_) server_->moved(place);
}

}  // namespace amp
