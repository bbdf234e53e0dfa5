// Observers of a training run that do not change it: the report page, which is rewritten periodically, its server
// (--serve), TensorBoard's event files (--tensorboard) and the worst samples of the last evaluation.
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
  // folder: the run's working folder. The object registers callbacks in the run's configuration and removes them when
  // it is destroyed.
  RunWatch(PreparedRun& run, std::string folder);
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;
  ~RunWatch();

  void trained();                // training has ended: writes the samples of its last evaluation, if that was put off
  void stopped();                // training stopped before its end; writes the page with this state
  void evaluated(int64_t step);  // an evaluation outside of the trainer
  void finished(const std::string& place);  // the run's files were moved to `place`; writes the page a last time

 private:
  void observe(const StepLine& line);
  void observe(int64_t step, const Metrics& m);
  void event(int64_t step, std::span<const Scalar> scalars);
  void renew(bool running);
  void renew_if_due();  // bounds the time that the page and the samples take
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
  std::optional<int64_t> unseen_;  // step of the last evaluation, if page and samples do not show it yet
  double renewed_ = 0, cost_ = 0;  // in seconds: when the page was last written, and how long that took
};

}  // namespace amp
