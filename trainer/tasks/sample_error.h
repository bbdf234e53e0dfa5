// PerSampleError: computes how wrong the output for a row is, and describes the prediction for reports. A task's file
// implements it. WorstSamples (trainer/tasks/worst_samples.h) keeps the samples with the largest errors.
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
  int64_t sample = 0;  // index in the dataset
  double error = 0;    // infinite if the outputs are NaN
  std::string label, predicted;
  double probability = std::numeric_limits<double>::quiet_NaN();  // probability of the prediction, if it has one
  std::string question, passage;                                  // span only
  // texts only: label and prediction at the token with the largest loss
  int64_t label_token = -1, predicted_token = -1;
  int64_t nearest = -1, nearest_side = 0;     // retrieval only: the nearest other candidate, as in CandidateRank
  Mask label_mask = {}, predicted_mask = {};  // segmentation only
};

// One row of a batch: `row` is its index in the batch, `rows` the number of rows of the batch, `sample` its index in
// the dataset. outputs and label contain all rows of the batch.
struct SampleRow {
  std::span<const HostTensor> outputs;  // in fp32
  const HostTensor& label;              // i64, or fp32
  int64_t row = 0, rows = 0, sample = 0;
};

class PerSampleError {
 public:
  virtual ~PerSampleError() = default;
  static constexpr double kNone = -1;  // the prediction is right: the row is not kept
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  virtual double error(const SampleRow& row) const = 0;
  virtual void describe(const SampleRow& row, SampleRecord& out) const = 0;
  // Returns true if the row is also shown if its prediction is right, as masks are.
  virtual bool shows(const SampleRow&) const { return false; }
};

// Creates the object that computes the errors of a task's samples (TaskRule::make_error); null if the task has none.
std::unique_ptr<PerSampleError> make_sample_error(Task task, const LossSpec& loss, const MetricContext& context);

// ---- for the tasks' files

// Returns the elements of one output that belong to the row; for a pair, those of both rows.
std::span<const float> values_of(const SampleRow& row, size_t output = 0);
std::vector<double> labels_of(const SampleRow& row);
double minus_log(double p);  // finite for 0, infinite for NaN
size_t largest(std::span<const double> p);

}  // namespace amp
