// Offsets of a tensor-wise optimizer's state for each span, and the scratch memory of its largest step.
#pragma once

#include <string>
#include <vector>

#include "backend/tensor_rule.h"
#include "backend/update.h"

namespace amp {

struct TensorLayout {
  TensorLayout(const std::string& rule, const RuleSettings& settings, const std::vector<UpdateSpan>& spans);

  struct Kept {
    std::string name;  // name in checkpoints
    int64_t count = 0;
    std::vector<int64_t> begin{};  // index of each span's first element
  };
  std::vector<TensorShape> shapes;  // indexed by span
  std::vector<Kept> kept;
  int64_t largest = 0, scratch = 0;  // elements of the largest tensor, and of the scratch memory
  int64_t sums = 0;                  // number of doubles of scratch memory
  int64_t bytes() const;             // returns the bytes of all states in fp32 and of the scratch memory
};

}  // namespace amp
