// Registers an elementwise core operator from its functor. (Files of the module ops contain one operator or
// family each: lowering of ONNX versions to core operators, inference, gradient, arithmetic.) CUDA units
// (ops/cuda) include operator files again with AMP_CUDA_UNIT defined. Then only CUDA kernels of the functors are
// registered.
#pragma once

#ifdef AMP_CUDA_UNIT
#include "backend/cuda/elementwise.cuh"
#else
#include "backend/elementwise.h"
#endif
#include "backend/functors.h"
#include "base/math.h"
#include "graph/autodiff.h"
#include "graph/bind.h"
#include "graph/lower.h"
#include "graph/op.h"

namespace amp {

using Gradient = void (*)(GradBuilder&);
using Simplify = ValueId (*)(Builder&, const std::vector<ValueId>&, const Attrs&);

#ifdef AMP_CUDA_UNIT
template <class F>
struct RegisterElementwise {
  explicit RegisterElementwise(const char* name, Gradient = nullptr, Simplify = nullptr)
      : kernel(DeviceKind::cuda, name, cuda::elementwise<F>) {
    if constexpr (kFusible<F>) RegisterFunctor(name, functor_info<F>());
  }
  RegisterElementwise(const char* name, Decomposition) : RegisterElementwise(name) {}

 private:
  RegisterKernel kernel;
};
#else
// Registers core operator `name` with functor F and its CPU kernel. If the functor returns bool, the operator
// is a predicate: its output is bool, and it has no gradient.
template <class F>
struct RegisterElementwise {
  explicit RegisterElementwise(const char* name, Gradient gradient = nullptr, Simplify simplify = nullptr)
      : RegisterElementwise(def(name, gradient, simplify)) {}
  // A constructor for gradients (*Grad), which have a decomposition instead of a gradient rule.
  RegisterElementwise(const char* name, Decomposition decomposition)
      : RegisterElementwise(def(name, nullptr, nullptr, decomposition)) {}

 private:
  explicit RegisterElementwise(const OpDef& d) : op(d), kernel(DeviceKind::cpu, d.name, elementwise<F>) {
    const std::string& name = d.name;
    if constexpr (kFusible<F>) {
      FunctorInfo info = functor_info<F>();
      info.run = elementwise_detail::run_packed<F, FunctorOperand<F>>;
      RegisterFunctor(name, info);
    }
  }
  static constexpr bool predicate() {
    using T = std::conditional_t<std::is_same_v<typename F::Domain, BooleansOnly>, bool, float>;
    if constexpr (F::arity == 1)
      return std::is_invocable_r_v<bool, F, T> && std::is_same_v<std::invoke_result_t<F, T>, bool>;
    else if constexpr (F::arity == 2)
      return std::is_same_v<std::invoke_result_t<F, T, T>, bool>;
    else
      return false;
  }
  static OpDef def(const char* name, Gradient gradient, Simplify simplify, Decomposition decomposition = nullptr) {
    OpDef d;
    d.name = name;
    d.infer = predicate() ? infer_compare : F::arity == 1 ? infer_same : infer_broadcast;
    d.gradient = gradient;
    d.decomposition = decomposition;
    d.min_inputs = F::arity;
    d.not_differentiable = predicate();
    d.simplify = simplify;
    d.may_overwrite = !predicate();
    return d;
  }
  RegisterOp op;
  RegisterKernel kernel;
};
#endif

// Lowers an ONNX operator to the core operator of the same name, with the same inputs and attributes.
inline void lower_same_name(Lowering& l) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < l.n_in(); ++i) in.push_back(l.in(i));
  l.out(0, l.b.op(l.node.op, std::move(in), l.attrs));
}

}  // namespace amp
