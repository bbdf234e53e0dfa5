// QuantizeLinear (ONNX 10, 13, 19, 21), DequantizeLinear, DynamicQuantizeLinear (11): per tensor, per axis, or blocked.
// QuantizeLinear becomes Quantize (ops/quantize_step.cc) and a Cast to its integer type. DequantizeLinear reads the
// input of this Cast, so that a pair of both operators is differentiable.
#include "ops/composed/quantize.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/dequantize_matrix.h"

namespace amp {
namespace {

// Reshapes a scale or zero point so that it broadcasts against x.
ValueId against(const Lowering& l, ValueId v, const Dims& x) {
  Builder& b = l.b;
  const Dims d = b.dims(v);
  if (numel(d) == 1 && d.size() <= 1) return b.reshape(v, {});
  const int64_t rank = static_cast<int64_t>(x.size()), axis = normalize_axis(l.attrs.i("axis", 1), rank);
  const size_t at = static_cast<size_t>(axis);
  if (d.size() == 1) {
    if (d[0] != x[at]) fail(Exit::model, "E_SHAPE", cat(l.node.op, ": ", d[0], " scales for an axis of ", x[at]));
    Dims line(x.size(), 1);
    line[at] = d[0];
    return b.reshape(v, line);
  }
  const int64_t block = l.attrs.i("block_size", 0);
  if (d.size() != x.size() || block <= 0 || d[at] * block != x[at])
    l.unsupported(cat("scale ", to_string(d), " for ", to_string(x), ", blocks of ", block));
  Dims lifted = d, wide = d;
  lifted.insert(lifted.begin() + axis + 1, 1);
  wide.insert(wide.begin() + axis + 1, block);
  return b.reshape(b.expand(b.reshape(v, lifted), wide), x);
}

Attrs range_of(const Lowering& l, DType t) {
  switch (t) {
    case DType::u8:
      return {{"low", 0.0}, {"high", 255.0}};
    case DType::i8:
      return {{"low", -128.0}, {"high", 127.0}};
    case DType::u16:
      return {{"low", 0.0}, {"high", 65535.0}};
    case DType::i16:
      return {{"low", -32768.0}, {"high", 32767.0}};
    default:
      l.unsupported(cat("quantization to ", name_of(t)));
  }
}

}  // namespace

ValueId quantized(const Lowering& l, ValueId x, ValueId scale, ValueId zero, DType t) {
  return l.b.cast(l.b.op("Quantize", {x, scale, zero}, range_of(l, t)), t);
}

ValueId as_integers(Builder& b, ValueId whole, DType t) {
  return b.op("Cast", {whole}, {{"to", static_cast<int64_t>(t)}, {kWholeNumbers, int64_t{1}}});
}

ValueId unquantized(Builder& b, ValueId q, DType f) {
  const NodeId p = b.value(q).producer;
  if (p && b.graph().node(p).op->view && !is_float(b.dtype(q)) && !is_float(b.dtype(b.graph().node(p).in[0]))) {
    const Dims dims = b.dims(q);
    return b.reshape(unquantized(b, b.graph().node(p).in[0], f), dims);
  }
  if (p && b.graph().node(p).op->name == "Cast") {
    const ValueId from = b.graph().node(p).in[0];
    const NodeId q_node = b.value(from).producer;
    const bool whole = b.graph().node(p).attrs.has(kWholeNumbers);
    if (whole || (q_node && b.graph().node(q_node).op->name == "Quantize")) return b.cast(from, f);
  }
  return b.cast(q, f);
}

void require_finite(const Lowering& l, size_t i, const std::vector<double>& values) {
  const auto bad = std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  if (bad == values.end()) return;
  fail(Exit::model, "E_SCALE_NONFINITE",
       cat(l.node.op, ": input ", i, " (of the quantized weight) holds ", *bad, " at ", bad - values.begin()),
       "quantize the model again: the file is damaged");
}

Dynamic dynamically_quantized(const Lowering& l, ValueId from) {
  Builder& b = l.b;
  const DType f = b.dtype(from);
  const ValueId none = b.scalar(0, f), one = b.scalar(1, f);
  const ValueId x = b.reshape(from, {numel(b.dims(from))});
  const Attrs all{{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}};
  const ValueId top = b.op("Max", {b.op("ReduceMax", {x}, all), none}),
                low = b.op("Min", {b.op("ReduceMin", {x}, all), none});
  const ValueId span = sub(b, top, low);
  const ValueId scale = div(b, b.op("Where", {b.op("Equal", {span, none}), one, span}), b.scalar(255, f));
  const ValueId point =
      b.op("Clip", {b.op("Round", {b.op("Neg", {div(b, low, scale)})})}, {{"min", 0.0}, {"max", 255.0}});
  // Straight-through: the gradient passes to `from` as if there were no quantization. Scale and zero point get none.
  const ValueId s = b.op("Detach", {scale}), z = b.op("Detach", {point});
  return {b.op("Quantize", {from, s, z}, range_of(l, DType::u8)), s, z};
}

namespace {

void lower_quantize(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0);
  DType t = DType::u8;
  if (l.has(2)) {
    t = b.dtype(l.in(2));
  } else if (const int64_t code = l.attrs.i("output_dtype", 0); code != 0) {
    if (code < 2 || code > 5) l.unsupported(cat("element type ", code, " of TensorProto"));
    t = code == 2 ? DType::u8 : code == 3 ? DType::i8 : code == 4 ? DType::u16 : DType::i16;
  }
  const DType f = l.float_type();
  const ValueId in = b.cast(l.in(0), f), scale = against(l, b.cast(l.in(1), f), x);
  const ValueId zero = l.has(2) ? against(l, b.cast(l.in(2), f), x) : b.scalar(0, f);
  l.out(0, quantized(l, in, scale, zero, t));
}

// Returns true for numbers that the file stores, and for a trained weight that is quantized again in each step.
bool stored_weight(const Builder& b, ValueId v) {
  for (NodeId p = b.value(v).producer; p; p = b.value(v).producer) {
    const Node& n = b.graph().node(p);
    if (n.op->name != "Quantize" && n.op->name != "Cast" && !n.op->view) return false;
    v = n.in[0];
  }
  return b.constant_of(v) || b.value(v).kind == ValueKind::param;
}

// Describes a matrix of bytes that the file stores and the graph dequantizes: per tensor, per row or column, or in
// blocks along an axis. Such a matrix is not expanded (ops/dequantize_matrix.h). Returns nullopt for other inputs.
std::optional<QuantizedMatrix> stored_matrix(const Lowering& l) {
  const HostTensor *x = l.b.constant_of(l.in(0)), *scales = l.b.constant_of(l.in(1)),
                   *zeros = l.has(2) ? l.b.constant_of(l.in(2)) : nullptr;
  const auto bytes = [](const HostTensor& t) { return t.dtype() == DType::i8 || t.dtype() == DType::u8; };
  if (!x || !scales || x->rank() != 2 || !bytes(*x)) return std::nullopt;
  if (l.has(2) && (!zeros || zeros->dims() != scales->dims() || !bytes(*zeros))) return std::nullopt;
  QuantizedMatrix m;
  m.rows = x->dims()[0], m.columns = x->dims()[1];
  m.bits = 8, m.row_bits = m.columns * 8;
  m.codes = x->dtype() == DType::i8 ? Codes::signed_integers : Codes::unsigned_integers;
  if (scales->numel() == 1 && scales->rank() <= 1) return m;
  const bool by_row = normalize_axis(l.attrs.i("axis", 1), 2) == 0;
  const int64_t length = by_row ? m.rows : m.columns;
  int64_t block = l.attrs.i("block_size", 0);
  if (scales->rank() == 1) {
    if (scales->numel() != length) return std::nullopt;
    (by_row ? m.scale_row : m.scale_column) = 1;
    if (by_row) m.block_columns = std::max<int64_t>(1, m.columns);
    return m;
  }
  const Dims blocked = by_row ? Dims{length / std::max<int64_t>(1, block), m.columns}
                              : Dims{m.rows, length / std::max<int64_t>(1, block)};
  if (block < 1 || length % block != 0 || scales->dims() != blocked) return std::nullopt;
  (by_row ? m.block_rows : m.block_columns) = block;
  m.scale_row = blocked[1], m.scale_column = 1;
  return m;
}

void lower_dequantize(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0);
  const DType f = l.float_type();
  const HostTensor* scales = b.constant_of(l.in(1));
  if (const auto m = stored_matrix(l)) {
    require_finite(l, 1, scales->to_doubles());
    return l.out(0, dequantized_matrix(b, *m, l.in(0), b.cast(l.in(1), f), l.has(2) ? l.in(2) : ValueId{}));
  }
  if (scales && stored_weight(b, l.in(0))) require_finite(l, 1, scales->to_doubles());
  ValueId v = unquantized(b, l.in(0), f);
  if (l.has(2)) v = sub(b, v, against(l, b.cast(l.in(2), f), x));
  l.out(0, mul(b, v, against(l, b.cast(l.in(1), f), x)));
}

void lower_dynamic(Lowering& l) {
  const Dynamic d = dynamically_quantized(l, l.in(0));
  l.out(0, l.b.cast(d.q, DType::u8));
  l.out(1, d.scale);
  l.out(2, l.b.cast(d.zero, DType::u8));
}

const RegisterOnnx quantize_onnx[] = {RegisterOnnx{{"QuantizeLinear", lower_quantize, 10, {}}},
                                      RegisterOnnx{{"DequantizeLinear", lower_dequantize, 10, {}}},
                                      RegisterOnnx{{"QuantizeLinear", lower_quantize, 1, "com.microsoft"}},
                                      RegisterOnnx{{"DequantizeLinear", lower_dequantize, 1, "com.microsoft"}},
                                      RegisterOnnx{{"DynamicQuantizeLinear", lower_dynamic, 11, {}}}};

}  // namespace
}  // namespace amp
