// Writes samples.json for a run's report: the samples with the largest error in the last evaluation, with texts and
// small pictures. The file is bounded: few samples, truncated texts, pictures of a few hundred pixels.
#pragma once

#include <memory>
#include <string>

#include "trainer/tasks/worst_samples.h"

namespace amp {

class SampleRows;
struct PreparedRun;

class SampleWriter {
 public:
  explicit SampleWriter(const PreparedRun& run);
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  ~SampleWriter();
  // Writes the file unless there is nothing to show. The first call reads the data's rows again, for display.
  void write(const WorstSamples& worst, int64_t step, const std::string& folder);

 private:
  const PreparedRun& run_;
  std::unique_ptr<SampleRows> rows_;
};

}  // namespace amp
