// A residual connection and the norm after it as one node, and their gradient as another, to save memory traffic.
// They are formed in graphs that include the backward pass (ops/passes/add_norm_fusion.h).
//
// AddNorm(a, x, scale (n), bias (n)?, b (n)?, tokens?) -> y, s, mean, rstd, copy. a is the branch's result, b its bias,
// x the residual stream. tokens: as in TokenDropout, one per row (ops/token_dropout.cc).
//   s = x + dropout(a + b);  y, mean, rstd = LayerNorm(s, scale, bias) (ops/layer_norm.cc);  copy = y in another type
//   With inputs 6 mean, 7 rstd, 8 scale, 9 bias (optional), x is recomputed: the fp32 norm of input 1 with these. With
//   the attribute y = 0 there is no output y, and s is output 0 (ops/passes/norm_recomputation.h).
// AddNormGrad(s, scale, mean, rstd, dy, more?, tokens?, rest?) -> ds, and as needed da, copy. more: gradients of s from
// its other readers. rest: a second summand of y's gradient; dy and rest are then fp32.
//   ds = LayerNormGrad(s, scale, mean, rstd, dy + rest) + more;  da = dropout(ds);  copy = the last in another type
// AddNormGradSums: AddNormGrad and NormSums (ops/norm_sums.h) in one pass. The outputs are those of AddNormGrad, then
// dscale, dbias and, with the attribute summed, the column sums of the output with this index (0: ds).
// Attributes
//   n, epsilon, rms   LayerNorm's
//   ratio, site, rows  Dropout's (ops/dropout.cc), with the same bits; ratio 0: neither dropout nor da
//   length            with tokens: TokenDropout's bits (ops/token_dropout.cc); a row is a token
//   sum, dropped, norm  types to which a + b, its dropout, and LayerNormGrad's result are rounded before use, as
//                      separate nodes would store them. Absent: not rounded.
//   copy              the copy's type; absent: there is no copy
#pragma once

#include <optional>

#include "backend/kernel.h"
#include "backend/program_plan.h"
#include "ops/dropout.h"

namespace amp {

inline std::optional<DType> type_attribute(const Attrs& a, const char* name) {
  return a.has(name) ? std::optional(static_cast<DType>(a.i(name, 0))) : std::nullopt;
}

// Number of elements per sample. Dropout's random numbers depend on the sample and the element's index in it.
inline int64_t elements_per_sample(const Attrs& a, int64_t elements) {
  if (a.has("length")) return a.i("length", 1) * a.i("n", 1);
  const int64_t rows = a.i("rows", 1);
  return elements / (elements % rows == 0 ? rows : 1);
}

struct AddNormOutputs {
  Tensor y, s, mean, rstd, copy;  // the node's outputs; an absent one is empty
  explicit AddNormOutputs(const KernelArgs& a) {
    auto next = a.out.begin();
    if (a.attrs().i("y", 1) != 0) y = *next++;
    s = *next++;
    mean = *next++;
    rstd = *next++;
    if (next != a.out.end()) copy = *next;
  }
};

// Outputs of AddNormGradSums.
struct AddNormSums {
  size_t first;                     // index of the first output that is a sum
  std::optional<size_t> of_branch;  // index of the output whose columns are summed
  AddNormSums(const Attrs& a, size_t outputs)
      : first(static_cast<size_t>(a.i(kFirstSum, static_cast<int64_t>(outputs) - (a.has("summed") ? 3 : 2)))),
        of_branch(a.has("summed") ? std::optional(static_cast<size_t>(a.i("summed", 0))) : std::nullopt) {}
};
// Arguments of the NormSums that follows AddNormGrad.
inline KernelArgs norm_sums_args(const KernelArgs& a, const AddNormSums& parts) {
  KernelArgs s = a;
  s.in = {a.in[0], a.in[2], a.in[3], a.in[4], a.has(7) ? a.in[7] : Tensor{}};
  if (parts.of_branch) s.in.push_back(a.out.at(*parts.of_branch));
  s.out.assign(a.out.begin() + static_cast<std::ptrdiff_t>(parts.first), a.out.end());
  return s;
}

}  // namespace amp
