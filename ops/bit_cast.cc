// BitCast (ONNX 26) reinterprets the bytes of an element as another type of the same size. Floating-point tensors
// have the working type (graph/lower.h), so the declared type must have the same width. BitCast has no gradient.
#include <cstring>

#include "backend/rows.h"
#include "graph/onnx_type.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) { c.out(static_cast<DType>(c.attrs.i("to", 0)), c.in(0).dims); }

Kernel kernel(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const bool wide = a.attrs().i("bytes", 4) == 8;
  // 16-bit storage holds rounded numbers of the working type, so BitCast converts them to that type first.
  const auto real = [wide](DType t) { return is_low(t) ? (wide ? DType::f64 : DType::f32) : t; };
  const DType from = real(x.dtype), to = real(y.dtype);
  return [=] {
    parallel_ranges(x.numel(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t in = 0, out = 0;
        convert(x.dtype, static_cast<const char*>(x.data) + i * size_of(x.dtype), from, &in, 1);
        std::memcpy(&out, &in, static_cast<size_t>(size_of(from)));
        if (to == DType::boolean) out = out != 0;
        convert(to, &out, y.dtype, static_cast<char*>(y.data) + i * size_of(y.dtype), 1);
      }
    });
  };
}

OpDef def() {
  OpDef d;
  d.name = "BitCast";
  d.infer = infer;
  d.not_differentiable = true;
  d.min_inputs = 1;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "BitCast", kernel};

// Returns the target type. Throws if values of that type are not stored in it, which is so for 16-bit floats.
DType target(const Lowering& l) {
  const int64_t code = l.attrs.i("to", 0);
  const std::optional<DType> t = dtype_of_onnx(code);
  if (!t || is_low(*t)) l.unsupported(cat("element type ", code, " of TensorProto"));
  return *t;
}

void lower(Lowering& l) {
  const DType from = l.b.dtype(l.in(0)), to = target(l);
  if (size_of(from) != size_of(to) || (is_float(to) && to != l.float_type()))
    l.unsupported(cat(name_of(from), " (as it is computed in) to ", name_of(to)));
  l.out(0, l.b.op("BitCast", {l.in(0)}, {{"to", static_cast<int64_t>(to)}, {"bytes", size_of(to)}}));
}
const RegisterOnnx onnx{{"BitCast", lower, 26, {}}};

}  // namespace
}  // namespace amp
