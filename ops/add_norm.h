// A residual connection and the norm after it as one node, and their gradient as another, to save memory traffic.
// They are formed in complete graphs (ops/passes/add_norm_fusion.h).
//
// AddNorm: in 0 a, 1 x, 2 scale (n), 3 bias (n, optional), 4 b (n, optional), 5 tokens (optional); out 0 y, 1 s, 2
// mean, 3 rstd, 4 copy
//   s = x + dropout(a + b);  y, mean, rstd = LayerNorm(s, scale, bias) (ops/layer_norm.cc);  copy = y in another type
//   With in 6 mean, 7 rstd, 8 scale, 9 bias (optional) x is the norm by these of what stands in its place (fp32), and
//   with the attribute y = 0 there is no output y: s comes first (ops/passes/norm_renewal.h).
// AddNormGrad: in 0 s, 1 scale, 2 mean, 3 rstd, 4 dy, 5 more (optional), 6 tokens (optional), 7 rest (optional, fp32
// as dy is then); out 0 ds, then what there is of: 1 da, 2 copy
//   ds = LayerNormGrad(s, scale, mean, rstd, dy + rest) + more;  da = dropout(ds);  copy = the last in another type
// AddNormGradSums: the same and NormSums (ops/norm_sums.h) of it, in one pass; out what AddNormGrad gives out, then
// dscale, dbias and, with the attribute summed, the column sums of that of the results before (0: ds)
// Attributes
//   n, epsilon, rms   LayerNorm's
//   ratio, site, rows  Dropout's (ops/dropout.cc), the same bits; ratio 0: neither dropout nor da
//   length            with tokens: TokenDropout's bits (ops/token_dropout.cc), a row being a token
//   sum, dropped, norm  types to which a + b, the dropout of it and LayerNormGrad's result round before they are used:
//   the
//                      numbers are those of separate nodes that store them so. Absent: they do not round.
//   copy              the copy's type; absent: there is none
#pragma once

#include <optional>

#include "backend/kernel.h"
#include "backend/program_plan.h"
#include "ops/dropout.h"

namespace amp {

inline std::optional<DType> type_attribute(const Attrs& a, const char* name) {
  return a.has(name) ? std::optional(static_cast<DType>(a.i(name, 0))) : std::nullopt;
}

// Elements per sample, the unit of dropout's streams.
inline int64_t elements_per_sample(const Attrs& a, int64_t elements) {
  if (a.has("length")) return a.i("length", 1) * a.i("n", 1);
  const int64_t rows = a.i("rows", 1);
  return elements / (elements % rows == 0 ? rows : 1);
}

struct AddNormOutputs {
  Tensor y, s, mean, rstd, copy;  // with their types
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
  size_t first;                     // index of the first sum
  std::optional<size_t> of_branch;  // the result whose columns are summed
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
