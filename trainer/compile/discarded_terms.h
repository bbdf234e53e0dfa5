// DiscardedTerms: wraps loss terms and discards the sums of some or all of them. The seeds of the backward pass are
// unchanged.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/update.h"

namespace amp {

class DiscardedTerms final : public LossTerms {
 public:
  DiscardedTerms(LossTerms& terms, std::vector<size_t> out) : terms_(terms), out_(std::move(out)) {}
  explicit DiscardedTerms(LossTerms& terms) : terms_(terms), all_(true) {}

  void seed(size_t i, const Tensor& input) override { terms_.seed(i, input); }
  void add_term(size_t i, const Tensor& sum) override {
    if (!all_ && std::find(out_.begin(), out_.end(), i) == out_.end()) terms_.add_term(i, sum);
  }

 private:
  LossTerms& terms_;
  std::vector<size_t> out_;
  bool all_ = false;
};

}  // namespace amp
