// Cast, CastLike, Identity: ONNX 6+. A Cast in the model between floating-point types is lowered to the identity,
// because the precision plan determines storage types (graph/lower.h).
#include "backend/parallel.h"
#include "graph/onnx_type.h"
#include "ops/composed/quantize.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer_cast(InferCtx& c) { c.out(static_cast<DType>(c.attrs.i("to", 0)), c.in(0).dims); }

ValueId simplify_cast(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const DType to = static_cast<DType>(a.i("to", 0));
  const Value& x = b.value(in[0]);
  if (x.dtype == to) return in[0];
  if (a.has(kWholeNumbers)) return {};
  // Instead of casting a dequantized weight, dequantizes it to the type of its readers.
  if (x.producer && b.graph().node(x.producer).op->deferred && is_float(to)) {
    const Node n = b.graph().node(x.producer);
    Attrs of_type = n.attrs;
    of_type.set("to", static_cast<int64_t>(to));
    return b.op(n.op->name, n.in, std::move(of_type));
  }
  // Moves the Cast before views, so that the node that computes x may store the other type itself (graph/passes.h).
  if (x.producer && b.graph().node(x.producer).op->view) {
    const Dims dims = x.dims;
    return b.reshape(b.cast(b.graph().node(x.producer).in[0], to), dims);
  }
  return {};
}

void grad_cast(GradBuilder& g) {
  if (is_float(g.b.dtype(g.out(0)))) g.add_grad(0, g.dy(0));  // add_grad() casts dy to the input's type
}

Kernel cast_kernel(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  return [x, y] {
    parallel_ranges(x.numel(), 65536, [&](int64_t b, int64_t e) {
      convert(x.dtype, static_cast<const char*>(x.data) + b * size_of(x.dtype), y.dtype,
              static_cast<char*>(y.data) + b * size_of(y.dtype), e - b);
    });
  };
}

OpDef cast_def() {
  OpDef d;
  d.name = "Cast";
  d.infer = infer_cast;
  d.gradient = grad_cast;
  d.simplify = simplify_cast;
  return d;
}
const RegisterOp cast_op{cast_def()};
const RegisterKernel cast_cpu{DeviceKind::cpu, "Cast", cast_kernel};

DType from_onnx(const Lowering& l, int64_t code) {
  if (const std::optional<DType> t = dtype_of_onnx(code)) return *t;
  l.unsupported(cat("element type ", code, " of TensorProto is not supported"));
}
void cast_to(Lowering& l, DType to) { l.out(0, l.b.cast(l.in(0), is_float(to) ? l.float_type() : to)); }
// Lowers Cast. Gradients pass a Cast of quantized numbers to floating point unchanged (straight-through).
void lower_cast(Lowering& l) {
  const DType to = from_onnx(l, l.attrs.i("to", 1));
  if (!is_float(to) || is_float(l.b.dtype(l.in(0)))) return cast_to(l, to);
  l.out(0, unquantized(l.b, l.in(0), l.float_type()));
}
void lower_cast_like(Lowering& l) { cast_to(l, l.b.dtype(l.in(1))); }
void lower_identity(Lowering& l) { l.out(0, l.in(0)); }

const RegisterOnnx onnx[] = {RegisterOnnx{{"Cast", lower_cast, 6, {}}},
                             RegisterOnnx{{"CastLike", lower_cast_like, 15, {}}},
                             RegisterOnnx{{"Identity", lower_identity, 1, {}}}};

}  // namespace
}  // namespace amp
