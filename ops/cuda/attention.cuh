// Code that the kernels of fused attention share (ops/fused_attention.h): their arguments, the head that a block
// computes, masks, and dropout.
#pragma once

#include <cmath>

#include "backend/cuda/raw.cuh"
#include "base/philox.h"
#include "ops/fused_attention.h"

namespace amp::cuda {

struct AttentionProblem {
  using Place = AttentionForm::Strides;
  Place q, k, v, y;
  int64_t queries = 0, keys = 0;  // extents of the tensors
  int heads = 0, width = 0, value_width = 0;
  float scale = 1, fill = 0;
  bool empty_rows_zero = false;

  Ref mask;
  int64_t mask_stride[4] = {};

  // Kernels do nothing if `gate` is not null and the integer at `gate` is 0.
  const int32_t* gate = nullptr;

  const int64_t* offsets = nullptr;  // first token of each sequence, then the end of the last sequence
  int64_t sequences = 0, longest = 0;

  const RunState* state = nullptr;
  uint32_t threshold = 0, site = 0;
  float keep = 1;          // factor by which dropout multiplies kept elements
  int64_t per_sample = 0;  // elements of p per sample; 0: each batch entry or sequence is a sample
  bool in_fours = false;   // each Philox block decides four keys, beginning at a multiple of four

  HD bool hides() const { return mask && mask.type == DType::boolean; }
  HD bool per_key() const { return mask && mask_stride[2] == 0; }  // the mask is the same for all queries
};

// Compile-time options of a kernel: whether it supports masks and dropout. A kernel without an option has neither
// its branches nor its registers.
template <bool kMasks, bool kDrops>
struct AttentionKind {
  static constexpr bool masks = kMasks, drops = kDrops;
};

// One head of one batch entry or sequence.
struct AttentionUnit {
  int64_t outer = 0, batch = 0, first = 0;  // outer: batch entry or sequence; first: the sequence's first token
  int head = 0, queries = 0, keys = 0;

  DEV AttentionUnit(const AttentionProblem& p, int64_t index) {
    const auto u = static_cast<unsigned>(index);
    outer = u / static_cast<unsigned>(p.heads);
    head = static_cast<int>(u % static_cast<unsigned>(p.heads));
    if (p.gate && *p.gate == 0) return;
    if (!p.offsets) {
      batch = outer;
      queries = static_cast<int>(p.queries);
      keys = static_cast<int>(p.keys);
      return;
    }
    // Clamps the offsets, so that invalid offsets cause no accesses outside of the tensors.
    first = p.offsets[outer];
    int64_t n = p.offsets[outer + 1] - first;
    n = n < p.longest ? n : p.longest;
    if (first < 0 || n < 0) n = 0;
    if (n > p.queries - first) n = p.queries > first ? p.queries - first : 0;
    queries = keys = static_cast<int>(n);
  }
  // Returns the offset in memory of this head's elements of a token.
  DEV int64_t at(const AttentionForm::Strides& s, int64_t token) const {
    return s.offset + batch * s.batch + head * s.head + (first + token) * s.token;
  }
  // Returns the index of a query in lse and other tensors of dims (batch, heads, queries).
  DEV int64_t row(const AttentionProblem& p, int64_t query) const {
    return (batch * p.heads + head) * p.queries + first + query;
  }
  DEV int64_t mask_at(const AttentionProblem& p, int64_t query, int64_t key) const {
    return batch * p.mask_stride[0] + head * p.mask_stride[1] + query * p.mask_stride[2] + key * p.mask_stride[3];
  }
};

// Returns z * scale, rounded to fp32. The compiler must not contract the product with later arithmetic, because forward
// and backward must compute the same score.
DEV float scaled(float z, float scale) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(z, scale);
#else
  return z * scale;
#endif
}
// Returns the masked score. z: the score, scale q k. m: the mask's element.
DEV float masked(const AttentionProblem& p, float z, float m) {
  if (!p.mask) return z;
  if (p.hides()) return m != 0 ? z : p.fill;
  return z + m;
}
// Returns an element of the mask; 1 or 0 for a boolean mask.
DEV float mask_value(const AttentionProblem& p, int64_t at) {
  if (p.mask.type == DType::f32) return static_cast<const float*>(p.mask.data)[at];
  if (p.mask.type == DType::boolean) return static_cast<const uint8_t*>(p.mask.data)[at] != 0 ? 1.0f : 0.0f;
  const uint16_t h = static_cast<const uint16_t*>(p.mask.data)[at];
  return p.mask.type == DType::f16 ? half_to_float(h) : bf16_to_float(h);
}

// The final values of a query's softmax: lse and rest (outputs 1 and 2 of FusedAttention), and the factor for the
// query's row of y.
struct AttentionRowEnd {
  float lse, rest, scale;

  // top: the largest score. sum: the sum of exp(score - top).
  DEV AttentionRowEnd(const AttentionProblem& p, int keys, float top, float sum) {
    const float log_sum = logf(sum);
    lse = top + log_sum;
    rest = log_sum - (lse - top);
    scale = 1 / sum;
    if (keys == 0) {
      scale = rest = 0;
      lse = -INFINITY;
    } else if (sum == 0) {  // all scores are -inf
      scale = p.empty_rows_zero ? 0.0f : NAN;
      lse = p.empty_rows_zero ? INFINITY : NAN;
      rest = 0;
    }
  }
};

// Returns whether a row contributes no gradient: all its keys are masked, so lse is NaN, and d, the dot product of dy
// and y, is 0.
DEV bool all_keys_masked(float lse, float d) { return lse != lse && d == 0; }

// Approximates e^x with an error of a few units in the last place, for results stored in 16 bits.
DEV float exp_near(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return std::exp(x);
#endif
}

// The random numbers by which dropout decides which weights p it keeps.
class AttentionDropout {
 public:
  DEV AttentionDropout(const AttentionProblem& p, const AttentionUnit& u) : p_(p), u_(u) {
    if (p.threshold == 0) return;
    seed_ = p.state->seed;
    samples_before_ = p.state->samples_before;
    step_ = static_cast<uint32_t>(p.state->step);
  }
  DEV explicit operator bool() const { return p_.threshold != 0; }
  // Returns whether dropout keeps the weight p at (query, key).
  DEV bool keeps(int64_t query, int64_t key) const {
    const Cell c = cell(row(query) + key);
    const PhiloxBlock b = block(c);
    const auto lane = static_cast<int>(c.k & 3);
    return keeps(lane == 0 ? b.v[0] : lane == 1 ? b.v[1] : lane == 2 ? b.v[2] : b.v[3]);
  }
  // Returns the random words of four keys, beginning at key 4 * four. Requires AttentionProblem::in_fours.
  DEV PhiloxBlock words(int64_t query, int64_t four) const { return block(cell(row(query) + 4 * four)); }
  DEV bool keeps(uint32_t word) const { return word >= p_.threshold; }

 private:
  DEV int64_t row(int64_t query) const {
    if (p_.offsets) return (u_.head * p_.longest + query) * p_.longest;
    const int64_t in_batch = (u_.head * p_.queries + query) * p_.keys;
    return p_.per_sample > 0 ? u_.outer * p_.heads * p_.queries * p_.keys + in_batch : in_batch;
  }
  struct Cell {
    int64_t sample, k;  // sample of the micro-batch; index of the element in the sample
  };
  DEV Cell cell(int64_t at) const {
    if (p_.per_sample == 0) return {u_.outer, at};
    const int64_t sample = quotient(at, p_.per_sample);
    return {sample, at - sample * p_.per_sample};
  }
  DEV PhiloxBlock block(const Cell& c) const {
    return philox4x32(
        {{static_cast<uint32_t>(c.k / 4), static_cast<uint32_t>(samples_before_ + c.sample), step_, p_.site}},
        static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
  }

  const AttentionProblem& p_;
  const AttentionUnit& u_;
  uint64_t seed_ = 0;
  int64_t samples_before_ = 0;
  uint32_t step_ = 0;
};

// Returns p after dropout. A dropped weight becomes 0 even if it is NaN.
DEV float dropped(float p, bool kept, float keep) { return kept ? p * keep : 0.0f; }

}  // namespace amp::cuda
