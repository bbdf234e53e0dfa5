// Elementwise parts of AddNorm and its gradient (ops/add_norm.h): dropout, the operands' types, and rounding of
// intermediate results, as separate nodes would store them.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/cuda/typed.cuh"
#include "ops/add_norm.h"

namespace amp::cuda {

// Rounds an intermediate result to the type in which a separate node would store it.
struct Rounding {
  DType type = DType::f32;
  HD explicit Rounding(DType t) : type(t) {}
  explicit Rounding(std::optional<DType> t) : type(t.value_or(DType::f32)) {}
  template <int W>
  DEV void operator()(float (&v)[W]) const {
    if (type == DType::f16) {
      for (int w = 0; w < W; ++w) v[w] = half_to_float(float_to_half(v[w]));
    } else if (type == DType::bf16) {
      for (int w = 0; w < W; ++w) v[w] = bf16_to_float(float_to_bf16(v[w]));
    }
  }
};

// The types of the large operands. branch: type of a product's result or its gradient. sum: type of the residual
// stream, its norm and their gradients. If the types are known at compile time, the kernel has a tenth of the code.
template <class BranchRef, class SumRef>
struct Types {
  using Branch = BranchRef;
  using Sum = SumRef;
};
using AnyTypes = Types<Ref, Ref>;
template <DType branch>
using MixedTypes = Types<TypedRef<branch>, TypedRef<DType::f32>>;

struct Drop {
  const RunState* state = nullptr;
  bool drops = false;
  uint32_t threshold = 0, site = 0;
  float scale = 1;
  int64_t per_sample = 1, n = 1;
  const int64_t* tokens = nullptr;  // token index of each row; null: row i is token i
  Drop(const KernelArgs& a, int64_t elements, size_t tokens_in)
      : state(a.state),
        per_sample(elements_per_sample(a.attrs(), elements)),
        n(a.attrs().i("n", 1)),
        tokens(a.has(tokens_in) ? a.in[tokens_in].as<int64_t>() : nullptr) {
    drops = a.attrs().f("ratio", 0) > 0;
    const DropoutBits bits = dropout_bits(a.attrs());
    threshold = bits.threshold;
    site = bits.site;
    scale = static_cast<float>(bits.scale);
  }
  explicit operator bool() const { return drops; }
  // Returns whether each row belongs to one sample and each group of four to one Philox block. True without dropout.
  bool whole_rows() const { return !drops || (per_sample % n == 0 && n % 4 == 0); }

  struct Row {
    int64_t sample = 0, at = 0;  // the sample of the row's first element, and the element's index in the sample
  };
  DEV Row begin(int64_t row) const {
    const int64_t at = (tokens ? tokens[row] : row) * n, sample = quotient(at, per_sample);
    return {sample, at - sample * per_sample};
  }
  // Applies dropout to W elements of a row from element i on. If W is 4, i is a multiple of four.
  template <int W>
  DEV void operator()(const Row& row, int64_t i, float (&v)[W]) const {
    int64_t k = row.at + i, sample = row.sample;
    if constexpr (W == 1) {
      const int64_t further = quotient(k, per_sample);
      sample += further;
      k -= further * per_sample;
    }
    const PhiloxBlock bits = dropout_words(*state, sample, k / 4, site);
    if constexpr (W == 4) {
      for (int w = 0; w < 4; ++w) v[w] = amp::drop(v[w], bits.v[w], threshold, scale);
    } else {
      const int lane = static_cast<int>(k % 4);
      const uint32_t b = lane == 0 ? bits.v[0] : lane == 1 ? bits.v[1] : lane == 2 ? bits.v[2] : bits.v[3];
      v[0] = amp::drop(v[0], b, threshold, scale);
    }
  }
};

}  // namespace amp::cuda
