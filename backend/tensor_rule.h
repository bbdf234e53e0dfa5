// Tensor-wise optimizers: the step of a parameter depends on the whole tensor (a norm of each row, a product of
// matrices), or its state does not have the parameter's shape. A rule is written as steps that a worker executes,
// on the CPU (backend/cpu/update/tensor_worker.h) and on the GPU (backend/cuda/tensor_worker.cuh). To add one,
// write a file in backend/rules and add its row in backend/update_rules.h, as for rules of elements
// (backend/update_rule.h):
//
//   struct Muon : TensorRule {
//     static constexpr std::string_view name = "muon";
//     static constexpr RuleKey keys[] = {...};
//     static std::vector<TensorState> states(const RuleSettings&, const TensorShape&);   // its state for a tensor
//     static int64_t scratch(const RuleSettings&, const TensorShape&);   // scratch elements (T) that a step needs
//     static int64_t sums(const RuleSettings&, const TensorShape&);      // scratch doubles that a step needs
//     template <class T, class Worker>
//     static void step(const RuleSettings&, const Worker&, const TensorStep<T>&);
//   };
//
// Steps of a worker, executed in order. f and prepare are [=] ON_DEVICE lambdas that access the device's memory.
// prepare() returns a struct that many elements share. single() runs f on one thread:
//
//   elements(n, f)                          f(i) for i in [0, n)
//   elements(n, prepare, f)                 f(prepare(), i)
//   matrix(rows, columns, f)                f(row, column)
//   sums(rows, each, f, out)                out[r] = sum of f(r each + j) over j in [0, each)
//   column_sums(matrices, rows, columns, f, out)   column sums of f(i), i an element of consecutive row-major matrices
//   largest(n, f, out)                      maximum of f(i) >= 0
//   copy(from, to, n)
//   single(f)                               f()
//   product(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)   as in backend/cpu/gemm/gemm.h
//   may_be_nonzero(flag)                    false only if *flag, a double, is known to be 0: steps that are needed only
//                                           for a nonzero flag may be skipped
//
// State is initialized with zeros. The order of additions does not depend on the number of threads.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "backend/update_rule.h"
#include "base/shape.h"

// Marks lambdas that a worker runs on the tensor's device.
#ifdef __CUDACC__
#define ON_DEVICE __device__
#else
#define ON_DEVICE
#endif

namespace amp {

struct TensorShape {
  Dims dims;
  bool elementwise = false;  // update it as vectors are, if the rule treats matrices differently
  int64_t count() const { return numel(dims); }
};

constexpr int kTensorStates = 4;
struct TensorState {
  const char* name;  // one of the rule's states; a tensor may have only some of them
  int64_t count;     // number of elements
};

struct TensorTime {
  double lr = 0, decay = 0;  // see RuleStep (backend/update_rule.h)
  int64_t t = 0;             // applied steps of this tensor, including this one
};

template <class T>
struct TensorStep {
  const TensorShape& shape;
  int64_t n;  // number of elements of the tensor
  const TensorTime* now;
  T* p;                             // the weights, which are updated
  T* g;                             // the gradient, unscaled and clipped; may be overwritten
  std::array<T*, kTensorStates> s;  // state, in the order of states()
  T* scratch;
  double* sums;
};

struct TensorRule {
  static constexpr bool tensor_wise = true;
  // A tensor-wise rule has no Element (update_rule.h): it has no moments, and visit() visits nothing.
  static int moments(const RuleSettings&) { return 0; }
  template <class F>
  static void visit(const RuleSettings&, F&&) {}
};

template <class Rule>
constexpr bool kTensorWise = requires {
  Rule::tensor_wise;
};

// Alignment of the parts of scratch memory.
constexpr int64_t kScratchAlign = 32;  // in elements
constexpr int64_t scratch_part(int64_t elements) {
  return (elements + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

}  // namespace amp
