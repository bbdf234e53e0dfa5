// Matches the unfused forms of attention that exporters write: MatMul(q, k^T), scaled before or after; masks added or
// selected by Where; Softmax; NaN rows replaced by 0; Dropout; MatMul with v. These nodes become one FusedAttention if
// both products compute in one type, and the operators between them compute in that type or in fp32 (kernels keep
// scores in fp32). No mask may depend on a parameter.
#pragma once

#include <functional>
#include <vector>

#include "graph/builder.h"
#include "ops/passes/matcher.h"

namespace amp {

struct AttentionMatch {
  ValueId q, v;  // (.., Sq, H), (.., Sk, Hv): rank 3 or 4, equal leading dims
  ValueId k;     // (.., Sk, H), or k^T if `transposed`
  bool k_transposed = false;
  std::vector<ValueId> added;  // masks that are added to the scores
  ValueId keep;                // boolean mask of a Where; invalid if there is none
  bool keep_means_hide = false;
  double fill = 0, scale = 1;
  bool empty_rows_zero = false;
  Attrs dropout;  // attributes of the Dropout; empty if there is none
};

class AttentionMatcher : public Matcher {
 public:
  AttentionMatcher(const Graph& g, const std::vector<DType>& compute);
  // Returns the attention whose last node is `root`, the product with v; nullopt if the nodes do not match.
  std::optional<AttentionMatch> match(NodeId root, const Node& node);

 private:
  bool probabilities(ValueId p, AttentionMatch& m);
  bool scores(ValueId z, AttentionMatch& m);
  ValueId unscaled(ValueId v, double& scale);
  void find_keys(ValueId b, bool transposed, AttentionMatch& m);
  bool fits(const AttentionMatch& m, const Dims& scores) const;
  bool types_agree(NodeId root) const;

  std::vector<bool> from_param_;
};

// Adds FusedAttention. Returns a value of the old product's dims (.., Sq, Hv). at: old value -> value of the new graph.
ValueId emit_attention(Builder& b, const AttentionMatch& m, const std::function<ValueId(ValueId)>& at);

}  // namespace amp
