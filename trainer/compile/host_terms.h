// HostTerms: loss terms with seeds and sums in host memory. It is for callers that need a micro-batch's losses and
// gradients without an optimizer step.
#pragma once

#include <utility>
#include <vector>

#include "backend/update.h"

namespace amp {

class HostTerms final : public LossTerms {
 public:
  // seeds: one per term. Gradients are those of sum_i seed_i * term_i.
  HostTerms(Device& device, std::vector<double> seeds)
      : device_(device), seeds_(std::move(seeds)), sums_(seeds_.size(), 0.0) {}

  void seed(size_t i, const Tensor& input) override {
    const HostTensor value = HostTensor::scalar<double>(seeds_.at(i)).cast(input.dtype);
    device_.upload(input.data, value.data(), value.bytes());
  }
  void add_term(size_t i, const Tensor& sum) override { sums_.at(i) += device_.read(sum).to_doubles().at(0); }

  const std::vector<double>& sums() const { return sums_; }  // the sum of each term over all micro-batches

 private:
  Device& device_;
  std::vector<double> seeds_, sums_;
};

}  // namespace amp
