// Predictions of tasks that convert outputs to one probability per class.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/tasks/predictions.h"

namespace amp {

class Probabilities : public Predictions {
 public:
  Probabilities(const LossSpec& loss, const PredictionContext& context)
      : loss_(loss), rows_(context.rows), names_(context.classes) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override;

 protected:
  virtual int64_t classes_of(int64_t width) const { return width; }  // width: number of outputs per row
  virtual void fill(std::span<const float> x, std::span<double> p) const = 0;

  std::span<const double> of(int64_t row) const {
    return std::span(values_).subspan(static_cast<size_t>(row * classes_), static_cast<size_t>(classes_));
  }
  nlohmann::ordered_json by_name(int64_t row) const;
  NamedTensor probabilities() const;

  const LossSpec loss_;
  const int64_t rows_;
  const std::vector<std::string> names_;
  int64_t classes_ = 0;
  std::vector<double> values_;  // (rows, classes)
};

}  // namespace amp
