// Attention whose rows see no key, or keys that a bias shifts far from 0: problems, and their gradients computed by
// plain loops in fp64, independent of any kernel. For the tests of the CPU's kernels, of the unfused operators and of
// CUDA's kernels.
//
// A score (scale q k + mask) is rounded once to the type that the engine computes in, because onnxruntime and PyTorch
// round it there, too: a bias of -1e9 in fp32 leaves nothing of scale q k. All that follows is fp64. Queries, keys and
// the scale are multiples of powers of two, so that no product before that rounding rounds (or all scores of a query
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
  double value = 0;        // of the keys of a masked row: added, or what replaces their scores
  bool every_row = false;  // else every second row is masked, others see all but one key
  bool zeros = false;      // a row of -inf gives zeros (empty_rows_zero)
  double size = 1;         // of queries and keys: 2^14 makes scores of 1e9
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
// fp64: scores are not rounded to fp32.
AttentionGradients gradients_of(const MaskedAttention& m, const AttentionOperandSet& o, bool fp64);

// The largest difference of got from want, in units of want's largest element; infinite for a NaN.
double relative_error(const HostTensor& got, const std::vector<double>& want);

// What 16-bit storage makes of a gradient, in units of its largest element: operands are exact, the result is rounded
// once, p and ds once where they are multiplied in 16 bits, and the sum of dy y is made of rounded y.
inline double storage_tolerance(DType t) {
  return t == DType::bf16 ? 4 * 0x1p-8 : t == DType::f16 ? 4 * 0x1p-11 : 1e-5;
}

}  // namespace amp::test
