// What a model is worst at, for people to look at: how wrong an output is about its row, and what it said instead. Each
// task is one file in this folder that registers itself; trainer/tasks/worst_samples.h keeps the worst.
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

struct JudgedSample {
  int64_t sample = 0;  // of the dataset
  double error = 0;    // infinite where the outputs are no numbers
  std::string label, predicted;
  double probability = std::numeric_limits<double>::quiet_NaN();  // of what is predicted, where it has one
  std::string question, passage;                                  // of a span
  int64_t label_token = -1, predicted_token = -1;                 // of a text: at its token of the largest loss
  int64_t nearest = -1, nearest_side = 0;                         // of retrieval: the sample whose candidate that is
  Mask label_mask = {}, predicted_mask = {};                      // of segmentation
};

// One row of a batch as judges see it.
struct JudgedRow {
  std::span<const HostTensor> outputs;  // in fp32
  const HostTensor& label;              // i64, or fp32
  int64_t row = 0, rows = 0, sample = 0;
};

class Judge {
 public:
  virtual ~Judge() = default;
  static constexpr double kNone = -1;  // no error: the row is not kept
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  virtual double error(const JudgedRow& row) const = 0;
  virtual void describe(const JudgedRow& row, JudgedSample& out) const = 0;
  virtual bool shows(const JudgedRow&) const { return false; }  // is it worth a look, right or wrong? A picture is.
};

using MakeJudge = std::unique_ptr<Judge> (*)(const LossSpec& loss, const MetricContext& context);
// At namespace scope of a task's file: `const JudgeRegistration registered{Task::span, judge<Spans>};`
struct JudgeRegistration {
  JudgeRegistration(Task task, MakeJudge make);
};
template <class T>
std::unique_ptr<Judge> judge(const LossSpec& loss, const MetricContext& context) {
  return std::make_unique<T>(loss, context);
}

std::unique_ptr<Judge> make_judge(Task task, const LossSpec& loss, const MetricContext& context);  // null: it has none

// ---- for the tasks' files

std::span<const float> values_of(const JudgedRow& row, size_t output = 0);  // of a pair: of both its rows
std::vector<double> labels_of(const JudgedRow& row);
double minus_log(double p);  // finite for 0, infinite for NaN
size_t largest(std::span<const double> p);

}  // namespace amp
