// Attention in the spellings that exporters write, as one FusedAttention: MatMul(q, k^T), scaled before or behind it;
// masks added or put in by Where; Softmax; rows that are NaN made 0; Dropout; MatMul with v. Formed where both products
// compute in one type and what lies between them in that or fp32 (its kernels keep the scores in fp32), and where no
// mask depends on a parameter.
#pragma once

#include <functional>
#include <vector>

#include "graph/builder.h"
#include "ops/passes/matcher.h"

namespace amp {

struct AttentionMatch {
  ValueId q, v;  // (.., Sq, H), (.., Sk, Hv), rank 3 or 4, equal leading dims
  ValueId k;     // (.., Sk, H), or k^T if transposed
  bool k_transposed = false;
  std::vector<ValueId> added;  // masks
  ValueId keep;                // a boolean mask, or invalid
  bool keep_means_hide = false;
  double fill = 0, scale = 1;
  bool empty_rows_zero = false;
  Attrs dropout;  // of the Dropout node, or none
};

class AttentionMatcher : public Matcher {
 public:
  AttentionMatcher(const Graph& g, const std::vector<DType>& compute);
  // root: the product with v.
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

// (.., Sq, Hv), as the product would be; at: a value of the old graph in the new one.
ValueId emit_attention(Builder& b, const AttentionMatch& m, const std::function<ValueId(ValueId)>& at);

}  // namespace amp
