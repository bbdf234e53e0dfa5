// DatasetWrapper: base class of datasets that wrap another. Member functions forward to the wrapped dataset, except
// cut_samples(), which returns 0.
#pragma once

#include <memory>
#include <utility>

#include "data/dataset.h"

namespace amp {

class DatasetWrapper : public Dataset {
 public:
  explicit DatasetWrapper(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  int64_t size() const override { return data_->size(); }
  int64_t rows_per_sample() const override { return data_->rows_per_sample(); }
  std::span<const int32_t> lengths() const override { return data_->lengths(); }
  std::span<const int32_t> buckets() const override { return data_->buckets(); }
  std::span<const int64_t> source_rows() const override { return data_->source_rows(); }
  Batch batch(std::span<const int64_t> samples) const override { return data_->batch(samples); }
  HostTensor labels_of(std::span<const int64_t> samples) const override { return data_->labels_of(samples); }
  Batch training_batch(std::span<const int64_t> samples, int64_t epoch) const override {
    return data_->training_batch(samples, epoch);
  }
  std::shared_ptr<const Dataset> for_evaluation() const override { return data_->for_evaluation(); }
  const AnswerKey* answers() const override { return data_->answers(); }
  const SampleGroups* groups() const override { return data_->groups(); }
  InputRanges input_ranges() const override { return data_->input_ranges(); }
  std::string where(int64_t sample) const override { return data_->where(sample); }
  const Dataset& numbered() const override { return data_->numbered(); }
  void check_token_range(const std::string& input, int64_t rows) const override {
    data_->check_token_range(input, rows);
  }
  void check_label_range(int64_t classes, int64_t ignore) const override { data_->check_label_range(classes, ignore); }
  void check_more_labels(const std::string& name, int64_t classes, int64_t ignore) const override {
    data_->check_more_labels(name, classes, ignore);
  }

 protected:
  std::shared_ptr<const Dataset> data_;
};

}  // namespace amp
