// What looks on while a run trains, and never touches it: the report's page, which is renewed, its server (--serve),
// TensorBoard's event files (--tensorboard), what the last evaluation was worst at.
#pragma once

#include <memory>
#include <string>

#include "run/evaluate/samples.h"
#include "run/prepare/prepare.h"
#include "run/report/event_file.h"
#include "run/report/report_data.h"

namespace amp {

class ReportServer;

class RunWatch {
 public:
  // folder: where the run writes. It hangs itself into the run's configuration, as long as it lives.
  RunWatch(PreparedRun& run, std::string folder);
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;
  ~RunWatch();

  void stopped();                           // no more steps are done for now: the page says so
  void evaluated(int64_t step);             // an evaluation beside the trainer's
  void finished(const std::string& place);  // the run's files lie there now; the page is written a last time

 private:
  void see(const StepLine& line);
  void see(int64_t step, const Metrics& m);
  void event(int64_t step, std::span<const Scalar> scalars);
  void renew(bool running);
  template <class F>
  void guarded(const char* what, const F& f);

  PreparedRun& run_;
  std::string folder_;
  WorstSamples worst_;
  SampleWriter samples_;
  ReportData data_;
  std::optional<EventFile> events_;
  std::unique_ptr<ReportServer> server_;
  bool warned_ = false;
  double renewed_ = 0, cost_ = 0;  // seconds: when, and how long it took
};

}  // namespace amp
