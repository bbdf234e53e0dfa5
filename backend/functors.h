// The table of elementwise operators that can be fused (ops/passes/fuse.h). It contains all operators with
// floating-point or boolean operands and is filled by RegisterElementwise.
#pragma once

#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "backend/functor.h"
#include "graph/attrs.h"

namespace amp {

struct FunctorInfo {
  size_t arity = 0;
  bool on_booleans = false;  // operands are bool; otherwise they are float
  bool predicate = false;    // the result is bool; otherwise it has the operands' type
  size_t bytes = 0;          // size of the functor's parameters; 0 if it has none
  // Writes the functor that these attributes define to `to` (`bytes` bytes).
  void (*pack)(const Attrs&, void* to) = nullptr;
  // Computes n results with the functor at `functor`, as elementwise_detail::run_row does. Null if the operator's file
  // was compiled as a CUDA unit (AMP_CUDA_UNIT).
  void (*run)(const void* functor, const void* const* x, unsigned mask, void* y, int64_t n) = nullptr;
};

const FunctorInfo* find_functor(std::string_view op);  // returns null if op is not in the table

struct RegisterFunctor {
  RegisterFunctor(std::string_view op, const FunctorInfo& info);
};

// True if F belongs in the table.
template <class F>
constexpr bool kFusible =
    std::is_same_v<typename F::Domain, FloatsOnly> || std::is_same_v<typename F::Domain, FloatsAndInts> ||
    std::is_same_v<typename F::Domain, BooleansOnly> || std::is_same_v<typename F::Domain, AnyType>;

// The operand type and the result type of F.
template <class F>
using FunctorOperand = std::conditional_t<std::is_same_v<typename F::Domain, BooleansOnly>, bool, float>;
template <class F, class T, size_t... I>
auto functor_result(std::index_sequence<I...>) -> decltype(std::declval<const F&>()((static_cast<void>(I), T{})...));
template <class F>
using FunctorResult = decltype(functor_result<F, FunctorOperand<F>>(std::make_index_sequence<F::arity>{}));

template <class F>
FunctorInfo functor_info() {
  static_assert(std::is_trivially_copyable_v<F>, "functors travel bytewise");
  FunctorInfo info;
  info.arity = F::arity;
  info.on_booleans = std::is_same_v<FunctorOperand<F>, bool>;
  info.predicate = std::is_same_v<FunctorResult<F>, bool>;
  info.bytes = std::is_empty_v<F> ? 0 : sizeof(F);
  if constexpr (std::is_constructible_v<F, const Attrs&>) {
    info.pack = [](const Attrs& a, void* to) {
      const F f(a);
      std::memcpy(to, &f, sizeof f);
    };
  } else {
    static_assert(std::is_empty_v<F>);
  }
  return info;
}

}  // namespace amp
