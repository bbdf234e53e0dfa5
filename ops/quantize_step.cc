// Quantize(x, scale, zero) {low, high} = clip(round(x / scale) + zero) as a floating-point number; halves are rounded
// to even. The gradient is straight-through where the value is not clipped, and 0 where it is:
//   dx = dq / scale, dscale = -dq x / scale^2.
#include <cmath>

#include "ops/compose.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Range {
  explicit Range(const Attrs& a) : low(a.f("low", 0)), high(a.f("high", 255)) {}
  double low, high;
};
struct Quantize : Ternary, Range {
  using Range::Range;
  template <class T>
  HD T operator()(T x, T scale, T zero) const {
    const T q = std::nearbyint(x / scale) + zero;
    return q < static_cast<T>(low) ? static_cast<T>(low) : q > static_cast<T>(high) ? static_cast<T>(high) : q;
  }
};
struct QuantizeMask : Ternary, Range {
  using Range::Range;
  template <class T>
  HD T operator()(T x, T scale, T zero) const {
    const T q = std::nearbyint(x / scale) + zero;
    return q >= static_cast<T>(low) && q <= static_cast<T>(high) ? T(1) : T(0);
  }
};
// </functors>

void grad_quantize(GradBuilder& g) {
  const ValueId mask = g.op("QuantizeMask", {g.in(0), g.in(1), g.in(2)}, g.attrs());
  const ValueId dx = div(g.b, mul(g.b, g.dy(0), mask), g.in(1));
  g.add_grad(0, dx);
  if (g.needs(1)) g.add_grad(1, g.op("Neg", {mul(g.b, dx, div(g.b, g.in(0), g.in(1)))}));
}
std::vector<ValueId> decompose_mask(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Term x(b, in[0]), q = (x / Term(b, in[1])).to("Round") + Term(b, in[2]);
  return {where(both(q >= a.f("low", 0), q <= a.f("high", 255)), q.like(1), 0)};
}
const RegisterElementwise<Quantize> quantize{"Quantize", grad_quantize};
const RegisterElementwise<QuantizeMask> quantize_mask{"QuantizeMask", decompose_mask};

}  // namespace
}  // namespace amp
