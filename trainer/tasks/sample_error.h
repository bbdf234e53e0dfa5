// PerSampleError: how wrong an output is about its row, and what was predicted, for reports. A task's file implements
// it; WorstSamples (trainer/tasks/worst_samples.h) keeps the samples with the largest errors.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/images/image.h"
#include "trainer/tasks/task.h"

namespace amp {

struct SampleRecord {
  int64_t sample = 0;  // of the dataset
  double error = 0;    // infinite where the outputs are no numbers
  std::string label, predicted;
  double probability = std::numeric_limits<double>::quiet_NaN();  // of what is predicted, where it has one
  std::string question, passage;                                  // of a span
  int64_t label_token = -1, predicted_token = -1;                 // of a text: at its token of the largest loss
  int64_t nearest = -1, nearest_side = 0;                         // of retrieval: the sample whose candidate that is
  Mask label_mask = {}, predicted_mask = {};                      // of segmentation
};

// One row of a batch: outputs and label hold all of its rows.
struct SampleRow {
  std::span<const HostTensor> outputs;  // in fp32
  const HostTensor& label;              // i64, or fp32
  int64_t row = 0, rows = 0, sample = 0;
};

class PerSampleError {
 public:
  virtual ~PerSampleError() = default;
  static constexpr double kNone = -1;  // no error: the row is not kept
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  virtual double error(const SampleRow& row) const = 0;
  virtual void describe(const SampleRow& row, SampleRecord& out) const = 0;
  virtual bool shows(const SampleRow&) const { return false; }  // true: also shown when it is right, as masks are
};

// By the task's row; null: errors are not computed.
std::unique_ptr<PerSampleError> make_sample_error(Task task, const LossSpec& loss, const MetricContext& context);

// ---- for the tasks' files

std::span<const float> values_of(const SampleRow& row, size_t output = 0);  // of a pair: of both its rows
std::vector<double> labels_of(const SampleRow& row);
double minus_log(double p);  // finite for 0, infinite for NaN
size_t largest(std::span<const double> p);

}  // namespace amp
