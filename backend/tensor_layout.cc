#include "backend/tensor_layout.h"

#include <algorithm>

#include "backend/update_rules.h"

namespace amp {

TensorLayout::TensorLayout(const std::string& rule, const RuleSettings& settings,
                           const std::vector<UpdateSpan>& spans) {
  with_tensor_rule(rule, [&]<class Rule>(Rule) {
    for (const UpdateSpan& s : spans) {
      const TensorShape shape{s.dims, s.elementwise};
      check(shape.count() == s.count, "a tensor-wise optimizer needs the dims of each tensor");
      const std::vector<TensorState> states = Rule::states(settings, shape);
      check(states.size() <= kTensorStates, "a rule of whole tensors keeps few states");
      kept.resize(states.size());
      for (size_t i = 0; i < states.size(); ++i) {
        kept[i].name = rule + "/" + states[i].name;
        kept[i].begin.push_back(kept[i].count);
        kept[i].count += states[i].count;
      }
      largest = std::max(largest, s.count);
      scratch = std::max(scratch, Rule::scratch(settings, shape));
      sums = std::max(sums, Rule::sums(settings, shape));
      shapes.push_back(shape);
    }
  });
}

int64_t TensorLayout::bytes() const {
  int64_t elements = largest + scratch;
  for (const Kept& k : kept) elements += k.count;
  return elements * 4 + sums * 8;
}

}  // namespace amp
