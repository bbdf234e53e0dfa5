// Losses as graph: each is a weighted list of terms, a term a sum over items. Sums are divided by the number of valid items of
// the whole accumulation window, which is known from the labels before the first micro-batch; backward starts at
// loss_scale * weight / window_items, so that k micro-batches equal one large batch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace amp {

struct LossSpec {
  // cross_entropy: int64 class ids, logits [..., C] against label [...]; cross_entropy_nchw: logits [B, C, ...] against [B, ...];
  // causal_lm: logits [:, :-1] against label [:, 1:]; qa_span: label [B, 2] against start and end logits [B, S];
  // nll_probs: probabilities [B, C]; mse, bce_logits: float targets in the output's shape; rmspe_exp: log-targets;
  // cosine_mse: cosine of embedding rows (2i, 2i+1) against label [B/2].
  std::string kind = "cross_entropy";
  std::vector<std::string> outputs;   // the model outputs it reads: one, for qa_span two
  int64_t ignore_index = -100;
};

const std::vector<std::string>& loss_kinds();
void check_loss_kind(const std::string& kind);   // usage error with the nearest name

struct LossTerm {
  ValueId sum;        // scalar, fp32 or fp64
  double weight = 1;
};

// outputs: core values of spec.outputs, in order. label: a graph input.
std::vector<LossTerm> build_loss(Builder& b, const LossSpec& spec, const std::vector<ValueId>& outputs, ValueId label);

// Valid items per term: what each sum is divided by.
std::vector<double> count_items(const LossSpec& spec, const HostTensor& label);

}  // namespace amp
