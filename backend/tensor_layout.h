// Where a rule of whole tensors keeps the state of each span, and what memory the largest of its steps needs.
#pragma once

#include <string>
#include <vector>

#include "backend/tensor_rule.h"
#include "backend/update.h"

namespace amp {

struct TensorLayout {
  TensorLayout(const std::string& rule, const RuleSettings& settings, const std::vector<UpdateSpan>& spans);

  struct Kept {
    std::string name;  // in checkpoints
    int64_t count = 0;
    std::vector<int64_t> begin{};  // of a span
  };
  std::vector<TensorShape> shapes;  // of the spans
  std::vector<Kept> kept;
  int64_t largest = 0, scratch = 0;  // elements: of a tensor, for a while
  int64_t sums = 0;                  // doubles, for a while
  int64_t bytes() const;             // of all, in fp32
};

}  // namespace amp
