// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv (ONNX 10): products of quantized tensors. Integers are
// multiplied as fp64 numbers, which is exact. The QLinear forms scale the sum and quantize it again.
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/quantize.h"
#include "ops/conv.h"

namespace amp {
namespace {

// Reshapes a vector of scales or zero points so that it broadcasts along dimension `axis` of `rank`.
ValueId along(const Lowering& l, ValueId v, int64_t axis, int64_t rank) {
  const Dims d = l.b.dims(v);
  if (numel(d) == 1) return l.b.reshape(v, {});
  if (d.size() != 1) return v;  // v has all dims already
  Dims line(static_cast<size_t>(rank), 1);
  line[static_cast<size_t>(axis)] = d[0];
  return l.b.reshape(v, line);
}

// Returns input i minus the zero point in input z, in fp64. If the graph itself quantized the input, gradients pass
// straight through.
ValueId centered(const Lowering& l, size_t i, size_t z, int64_t axis) {
  const ValueId x = unquantized(l.b, l.in(i), DType::f64);
  if (!l.has(z)) return x;
  return sub(l.b, x, along(l, l.b.cast(l.in(z), DType::f64), axis, l.rank(i)));
}
ValueId scale(const Lowering& l, size_t i, int64_t axis, int64_t rank) {
  return along(l, l.b.cast(l.in(i), DType::f64), axis, rank);
}

// Quantizes `sum`, in which the operands' scales are included, with the scale in input 6 and the zero point in input 7.
void requantize(Lowering& l, ValueId sum) {
  Builder& b = l.b;
  const DType f = l.float_type(), t = b.dtype(l.in(7));
  l.out(0, quantized(l, b.cast(sum, f), along(l, b.cast(l.in(6), f), 0, 1), along(l, b.cast(l.in(7), f), 0, 1), t));
}

int64_t rows_axis(const Lowering& l, size_t i) { return l.rank(i) - 2; }
void need_matrices(const Lowering& l, size_t a, size_t b) {
  if (l.rank(a) < 2 || l.rank(b) < 2) l.unsupported("a product of vectors");
}

void lower_matmul_integer(Lowering& l) {
  need_matrices(l, 0, 1);
  const ValueId y = l.b.op("MatMul", {centered(l, 0, 2, rows_axis(l, 0)), centered(l, 1, 3, l.rank(1) - 1)});
  l.out(0, as_integers(l.b, y, DType::i32));
}

void lower_qlinear_matmul(Lowering& l) {
  need_matrices(l, 0, 3);
  Builder& b = l.b;
  const ValueId y = b.op("MatMul", {centered(l, 0, 2, rows_axis(l, 0)), centered(l, 3, 5, l.rank(3) - 1)});
  const int64_t rank = b.rank(y);
  requantize(l, mul(b, y, mul(b, scale(l, 1, rank - 2, rank), scale(l, 4, rank - 1, rank))));
}

void lower_conv_integer(Lowering& l) {
  l.out(0, as_integers(l.b, convolution(l, centered(l, 0, 2, 1), centered(l, 1, 3, 0), {}), DType::i32));
}

// Lowers QLinearConv of ONNX and com.microsoft. Inputs: x, scale and zero point of x, w, scale and zero point of w,
// scale and zero point of y, bias (in units of scale of x times scale of w).
void lower_qlinear_conv(Lowering& l) {
  Builder& b = l.b;
  if (l.attrs.i("channels_last", 0) != 0) l.unsupported("channels_last");
  const ValueId bias = l.has(8) ? b.cast(l.in(8), DType::f64) : ValueId{};
  const ValueId y = convolution(l, centered(l, 0, 2, 1), centered(l, 3, 5, 0), bias);
  requantize(l, mul(b, y, mul(b, scale(l, 1, 1, b.rank(y)), scale(l, 4, 1, b.rank(y)))));
}

const RegisterOnnx quantized_products_onnx[] = {RegisterOnnx{{"MatMulInteger", lower_matmul_integer, 10, {}}},
                                                RegisterOnnx{{"ConvInteger", lower_conv_integer, 10, {}}},
                                                RegisterOnnx{{"QLinearMatMul", lower_qlinear_matmul, 10, {}}},
                                                RegisterOnnx{{"QLinearConv", lower_qlinear_conv, 10, {}}},
                                                RegisterOnnx{{"QLinearConv", lower_qlinear_conv, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
