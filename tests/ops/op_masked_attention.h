// Attention problems with rows that have no visible key, or with a bias that shifts scores far from 0. Gradients are
// computed by plain loops in fp64, independent of any kernel. Used by the tests of the CPU's kernels, of the unfused
// operators and of the CUDA kernels.
//
// A score (scale q k + mask) is rounded once to the engine's compute type, because onnxruntime and PyTorch round it
// there, too: a bias of -1e9 in fp32 absorbs scale q k completely. Everything after that is fp64. Queries, keys and the
// scale are multiples of powers of two, so that no product before that rounding is inexact (or all scores of a query
// are equal).
#pragma once

#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "graph/attrs.h"

namespace amp::test {

enum class MaskKind { none, added, boolean };

struct MaskedAttention {
  std::string name;
  MaskKind kind = MaskKind::none;
  double value = 0;        // added to the scores of a masked row, or replaces them
  bool every_row = false;  // masks every row; else every second one; the others attend to all but one key
  bool zeros = false;      // a row of -inf gives zeros (empty_rows_zero)
  double size = 1;         // scale of queries and keys: 2^14 gives scores of 1e9
};
const std::vector<MaskedAttention>& masked_attentions();

struct AttentionOperandSet {
  HostTensor q, k, v, mask, dy;  // (B, S, N, H) each, fp64; mask: fp64, boolean or absent
  Attrs attrs;
};
AttentionOperandSet operands_of(const MaskedAttention& m);

struct AttentionGradients {
  std::vector<double> y, dq, dk, dv;
};
// Computes the gradients by plain loops. fp64: scores are not rounded to fp32.
AttentionGradients gradients_of(const MaskedAttention& m, const AttentionOperandSet& o, bool fp64);

// Returns the largest difference between got and want, relative to want's largest element; infinite for NaN.
double relative_error(const HostTensor& got, const std::vector<double>& want);

// Returns the error bound of a gradient with 16-bit storage, relative to its largest element. Operands are exact.
// Errors come from rounding the result, from the probabilities p and score gradients ds if they are multiplied in 16
// bits, and from rounded y in the sum of dy y.
inline double storage_tolerance(DType t) {
  return t == DType::bf16 ? 4 * 0x1p-8 : t == DType::f16 ? 4 * 0x1p-11 : 1e-5;
}

}  // namespace amp::test
