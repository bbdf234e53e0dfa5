// samples.json: what a run's last evaluation was worst at, with texts and small pictures, for its report. It is
// bounded, whatever the data hold: a few samples, cut texts, pictures of a few hundred pixels.
#pragma once

#include <memory>
#include <string>

#include "run/prepare/prepare.h"
#include "trainer/tasks/worst_samples.h"

namespace amp {

inline constexpr const char* kSamplesFile = "samples.json";

class SampleRows;

class SampleWriter {
 public:
  explicit SampleWriter(const PreparedRun& run);
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  ~SampleWriter();
  // Not written where there is nothing to show. The first time the data's rows are read again, as rows for people.
  void write(const WorstSamples& worst, int64_t step, const std::string& folder);

 private:
  const PreparedRun& run_;
  std::unique_ptr<SampleRows> rows_;
};

}  // namespace amp
