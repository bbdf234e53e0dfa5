// com.microsoft operators of quantized models (integer inputs and outputs): QLinearAdd, QLinearMul, QLinearSigmoid,
// QLinearLeakyRelu, QLinearSoftmax, QLinearConcat, QLinearGlobalAveragePool, QGemm. Operators of dynamically quantized
// models: MatMulIntegerToFloat, DynamicQuantizeMatMul, QAttention. Integers are dequantized, the floating-point
// operator is applied, and its result is quantized again. Values that were quantized in this graph get straight-through
// gradients; weights that the file stores as integers get none.
#include <cmath>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/attention.h"
#include "ops/composed/quantize.h"

namespace amp {
namespace {

ValueId line(const Lowering& l, size_t i, DType t) {
  const ValueId v = l.b.cast(l.in(i), t);
  return numel(l.b.dims(v)) == 1 ? l.b.reshape(v, {}) : v;
}
// Returns input i minus the zero points in input z. If there are several zero points, they apply along the last
// dimension.
ValueId centered(const Lowering& l, size_t i, size_t z, DType t) {
  const ValueId x = unquantized(l.b, l.in(i), t);
  return l.has(z) ? sub(l.b, x, line(l, z, t)) : x;
}
ValueId number(const Lowering& l, size_t i) {
  return mul(l.b, centered(l, i, i + 2, l.float_type()), line(l, i + 1, l.float_type()));
}
// Quantizes y with the scale in input s, to the type of the zero point in input z. Without a zero point, uses 0 and the
// type of input `like`.
void requantize(Lowering& l, ValueId y, size_t s, size_t z, size_t like = 0) {
  const DType f = l.float_type();
  const DType t = l.b.dtype(l.in(l.has(z) ? z : like));
  l.out(0, quantized(l, y, line(l, s, f), l.has(z) ? line(l, z, f) : l.b.scalar(0, f), t));
}

void lower_add(Lowering& l) { requantize(l, add(l.b, number(l, 0), number(l, 3)), 6, 7); }
void lower_mul(Lowering& l) { requantize(l, mul(l.b, number(l, 0), number(l, 3)), 6, 7); }
void lower_sigmoid(Lowering& l) { requantize(l, l.b.op("Sigmoid", {number(l, 0)}), 3, 4); }
void lower_leaky_relu(Lowering& l) {
  requantize(l, l.b.op("LeakyRelu", {number(l, 0)}, {{"alpha", l.attrs.f("alpha", 0.01)}}), 3, 4);
}

// Lowers QLinearSoftmax. The softmax is along one axis or, before opset 13, over all axes from `axis` on.
void lower_softmax(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0);
  const int64_t axis = normalize_axis(l.attrs.i("axis", -1), l.rank(0));
  ValueId x = number(l, 0);
  if (l.attrs.i("opset", 13) < 13) {
    int64_t rows = 1;
    for (int64_t i = 0; i < axis; ++i) rows *= d[static_cast<size_t>(i)];
    x = b.reshape(b.op("Softmax", {b.reshape(x, {rows, rows ? numel(d) / rows : 0})}), d);
  } else {
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < l.rank(0); ++i) perm.push_back(i);
    std::swap(perm[static_cast<size_t>(axis)], perm.back());
    x = b.transpose(b.op("Softmax", {b.transpose(x, perm)}), perm);
  }
  requantize(l, x, 3, 4);
}

// Lowers QLinearConcat. Inputs: scale and zero point of y, then x, scale and zero point of each part.
void lower_concat(Lowering& l) {
  std::vector<ValueId> parts;
  for (size_t i = 2; i + 2 < l.n_in(); i += 3) parts.push_back(number(l, i));
  if (parts.empty()) fail(Exit::model, "E_ATTR", "QLinearConcat of nothing");
  const int64_t axis = normalize_axis(l.attrs.i("axis", 0), l.rank(2));
  requantize(l, parts.size() == 1 ? parts[0] : concat(l.b, parts, axis), 0, 1);
}

void lower_global_average_pool(Lowering& l) {
  const bool last = l.attrs.i("channels_last", 0) != 0;
  std::vector<int64_t> axes;
  for (int64_t i = last ? 1 : 2; i < l.rank(0) - (last ? 1 : 0); ++i) axes.push_back(i);
  requantize(l, mean(l.b, number(l, 0), axes), 3, 4);
}

// Lowers QGemm. Multiplies integers exactly, in fp64, then multiplies by both scales. The bias is in units of the
// product of the scales.
void lower_gemm(Lowering& l) {
  Builder& b = l.b;
  const ValueId w = centered(l, 3, 5, DType::f64);
  if (l.attrs.i("transB", 0) != 0 && numel(l.dims(5)) > 1)
    l.unsupported("zero points of columns of a transposed weight");
  const ValueId y = b.op("MatMul", {centered(l, 0, 2, DType::f64), w},
                         {{"transA", l.attrs.i("transA", 0)}, {"transB", l.attrs.i("transB", 0)}, {"alpha", 1.0}});
  const ValueId sum = l.has(6) ? add(b, y, b.cast(l.in(6), DType::f64)) : y;
  const ValueId scale = scaled(b, mul(b, line(l, 1, DType::f64), line(l, 4, DType::f64)), l.attrs.f("alpha", 1));
  const ValueId real = b.cast(mul(b, sum, scale), l.float_type());
  if (l.has(7))
    requantize(l, real, 7, 8);
  else
    l.out(0, real);
}

ValueId product(const Lowering& l, ValueId a, ValueId b, ValueId a_scale, ValueId b_scale) {
  return l.b.cast(mul(l.b, l.b.op("MatMul", {a, b}), mul(l.b, a_scale, b_scale)), l.float_type());
}

// Lowers MatMulIntegerToFloat. Inputs: A, B, scale of A, scale of B, zero point of A, zero point of B, bias.
void lower_integer_to_float(Lowering& l) {
  if (numel(l.dims(2)) != 1 || (l.has(4) && numel(l.dims(4)) != 1)) l.unsupported("scales of the rows of A");
  const ValueId y = product(l, centered(l, 0, 4, DType::f64), centered(l, 1, 5, DType::f64), line(l, 2, DType::f64),
                            line(l, 3, DType::f64));
  l.out(0, l.has(6) ? add(l.b, y, l.in(6)) : y);
}
// Lowers DynamicQuantizeMatMul. Inputs: A (floating-point), B, scale of B, zero point of B, bias.
void lower_dynamic_matmul(Lowering& l) {
  Builder& b = l.b;
  const Dynamic a = dynamically_quantized(l, l.in(0));
  const ValueId x = b.cast(sub(b, a.q, a.zero), DType::f64);
  const ValueId y = product(l, x, centered(l, 1, 3, DType::f64), b.cast(a.scale, DType::f64), line(l, 2, DType::f64));
  l.out(0, l.has(4) ? add(b, y, l.in(4)) : y);
}

// Lowers QAttention. Inputs: input (B, S, I), weights (I, 3 * H), bias, scale of input, scale of weights, lengths
// (B), zero point of input, zero point of weights, past.
void lower_quantized_attention(Lowering& l) {
  Builder& b = l.b;
  if (l.has(8) || l.attrs.i("do_rotary", 0) != 0) l.unsupported("a past, or do_rotary");
  const Dims d = l.dims(0);
  const int64_t heads = l.attrs.i("num_heads", 1), width = l.dims(1).at(1) / 3;
  const ValueId qkv = add(b,
                          product(l, centered(l, 0, 6, DType::f64), centered(l, 1, 7, DType::f64),
                                  line(l, 3, DType::f64), line(l, 4, DType::f64)),
                          l.in(2));
  ValueId part[3];
  for (int64_t i = 0; i < 3; ++i) part[i] = split_heads(b, slice(b, qkv, 2, i * width, width), heads);
  const double masked = l.attrs.f("mask_filter_value", -10000), scale = l.attrs.f("scale", 0);
  std::vector<ValueId> masks;
  if (l.has(5)) {
    if (l.rank(5) == 1 && l.dims(5)[0] == d[0])
      masks.push_back(length_mask(b, l.in(5), d[1], masked, l.float_type()));
    else if (l.rank(5) == 2)
      masks.push_back(additive(b,
                               b.op("Greater", {b.reshape(l.in(5), {d[0], 1, 1, d[1]}), b.scalar(0, b.dtype(l.in(5)))}),
                               masked, l.float_type()));
    else
      l.unsupported(cat("a mask of ", to_string(l.dims(5))));
  }
  if (l.attrs.i("unidirectional", 0) != 0) masks.push_back(causal_mask(b, d[1], d[1], 0, masked, l.float_type()));
  const double by_head = 1 / std::sqrt(static_cast<double>(width / heads));
  l.out(0, merge_heads(b, attend(l, part[0], part[1], part[2], scale != 0 ? scale : by_head, 0, masks).y));
}

const char* const ms = "com.microsoft";
const RegisterOnnx quantized_contrib_onnx[] = {
    RegisterOnnx{{"QLinearAdd", lower_add, 1, ms}},
    RegisterOnnx{{"QLinearMul", lower_mul, 1, ms}},
    RegisterOnnx{{"QLinearSigmoid", lower_sigmoid, 1, ms}},
    RegisterOnnx{{"QLinearLeakyRelu", lower_leaky_relu, 1, ms}},
    RegisterOnnx{{"QLinearSoftmax", lower_softmax, 1, ms}},
    RegisterOnnx{{"QLinearConcat", lower_concat, 1, ms}},
    RegisterOnnx{{"QLinearGlobalAveragePool", lower_global_average_pool, 1, ms}},
    RegisterOnnx{{"QGemm", lower_gemm, 1, ms}},
    RegisterOnnx{{"MatMulIntegerToFloat", lower_integer_to_float, 1, ms}},
    RegisterOnnx{{"DynamicQuantizeMatMul", lower_dynamic_matmul, 1, ms}},
    RegisterOnnx{{"QAttention", lower_quantized_attention, 1, ms}}};

}  // namespace
}  // namespace amp
