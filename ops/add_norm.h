// A residual connection and the following norm as one node, and their gradient as another node, to save memory
// traffic. ops/passes/add_norm_fusion.h forms these nodes in graphs that include the backward pass.
//
// AddNorm(a, x, scale (n), bias (n)?, b (n)?, tokens?) -> y, s, mean, rstd, copy. a: the branch's result; b: its
// bias; x: the residual stream. tokens: as in TokenDropout, one per row (ops/token_dropout.cc).
//   s = x + dropout(a + b);  y, mean, rstd = LayerNorm(s, scale, bias) (ops/layer_norm.cc);  copy = y in another type
//   With inputs 6 mean, 7 rstd, 8 scale, 9 bias (optional), input 1 is not x; x is recomputed as its fp32 norm. With
//   the attribute y = 0 there is no output y, and s is output 0 (ops/passes/norm_recomputation.h).
// AddNormGrad(s, scale, mean, rstd, dy, more?, tokens?, rest?) -> ds, and if needed da, copy. more: gradients of s
// from its other readers. rest: a second summand of y's gradient; dy and rest are then fp32.
//   ds = LayerNormGrad(s, scale, mean, rstd, dy + rest) + more;  da = dropout(ds);  copy = da (or ds) in another type
// AddNormGradSums: AddNormGrad and NormSums (ops/norm_sums.h) in one pass. The outputs are those of AddNormGrad,
// then dscale, dbias and, with the attribute summed, the column sums of the output with this index (0: ds).
// Attributes
//   n, epsilon, rms   those of LayerNorm
//   ratio, site, rows  those of Dropout (ops/dropout.cc), with the same bits; ratio 0: neither dropout nor da
//   length            with tokens: dropout gives TokenDropout's bits (ops/token_dropout.cc); a row is a token
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

// Returns the number of elements per sample. Dropout's random numbers depend on the sample and the index in it.
inline int64_t elements_per_sample(const Attrs& a, int64_t elements) {
  if (a.has("length")) return a.i("length", 1) * a.i("n", 1);
  const int64_t rows = a.i("rows", 1);
  return elements / (elements % rows == 0 ? rows : 1);
}

struct AddNormOutputs {
  Tensor y, s, mean, rstd, copy;  // the node's outputs; absent outputs are empty
  explicit AddNormOutputs(const KernelArgs& a) {
    auto next = a.out.begin();
    if (a.attrs().i("y", 1) != 0) y = *next++;
    s = *next++;
    mean = *next++;
    rstd = *next++;
    if (next != a.out.end()) copy = *next;
  }
};

// Which outputs of AddNormGradSums are sums.
struct AddNormSums {
  size_t first;                     // index of the first output that is a sum
  std::optional<size_t> of_branch;  // index of the output whose columns are summed, if there is one
  AddNormSums(const Attrs& a, size_t outputs)
      : first(static_cast<size_t>(a.i(kFirstSum, static_cast<int64_t>(outputs) - (a.has("summed") ? 3 : 2)))),
        of_branch(a.has("summed") ? std::optional(static_cast<size_t>(a.i("summed", 0))) : std::nullopt) {}
};
// Returns the arguments of the NormSums node that would follow AddNormGrad.
inline KernelArgs norm_sums_args(const KernelArgs& a, const AddNormSums& parts) {
  KernelArgs s = a;
  s.in = {a.in[0], a.in[2], a.in[3], a.in[4], a.has(7) ? a.in[7] : Tensor{}};
  if (parts.of_branch) s.in.push_back(a.out.at(*parts.of_branch));
  s.out.assign(a.out.begin() + static_cast<std::ptrdiff_t>(parts.first), a.out.end());
  return s;
}

}  // namespace amp
