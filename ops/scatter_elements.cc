// ScatterElements (ONNX 11, reductions 16, 18) and Scatter (9), its old name, copy data and replace or combine elements
// at indices along an axis. Addition is lowered to Add and ScatterElementsAdd. The other reductions are lowered to
//   ScatterElements(data, indices, updates) {axis, reduction}: none (the last update is used), mul, max, min.
// The gradient of max and min is divided among ties, as in PyTorch.
#include "backend/indices.h"
#include "ops/compose.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

enum Reduction : int64_t { kNone, kMul, kMax, kMin };

int64_t index_at(const Tensor& t, int64_t i) {
  return t.dtype == DType::i64 ? static_cast<const int64_t*>(t.data)[i] : static_cast<const int32_t*>(t.data)[i];
}

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor x = a.in[0], idx = a.in[1], u = a.in[2], y = a.out[0];
  if (idx.dtype != DType::i64 && idx.dtype != DType::i32)
    fail(Exit::model, "E_ATTR", cat("indices are ", name_of(idx.dtype), ", not int32 or int64"));
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const int64_t reduction = a.attrs().i("reduction", kNone), n = x.dims[axis];
  const Dims strides = row_major_strides(x.dims), id = idx.dims;
  return [=] {
    convert(x.dtype, x.data, y.dtype, y.data, x.numel());
    std::vector<int64_t> at(id.size(), 0);
    for (int64_t i = 0; i < idx.numel(); ++i) {
      int64_t k = index_at(idx, i);
      if (k < -n || k >= n)
        fail(Exit::data, "E_DATA_INDEX", cat("ScatterElements: index ", k, " is outside an axis of ", n));
      if (k < 0) k += n;
      int64_t offset = k * strides[axis];
      for (size_t d = 0; d < id.size(); ++d) offset += d == axis ? 0 : at[d] * strides[d];
      char* const to = static_cast<char*>(y.data) + offset * size_of(y.dtype);
      T old, add, sum;
      convert(y.dtype, to, DTypeOf<T>::value, &old, 1);
      convert(u.dtype, static_cast<const char*>(u.data) + i * size_of(u.dtype), DTypeOf<T>::value, &add, 1);
      switch (reduction) {
        case kMul:
          sum = static_cast<T>(old * add);
          break;
        case kMax:
          sum = add > old || add != add ? add : old;
          break;
        case kMin:
          sum = add < old || add != add ? add : old;
          break;
        default:
          sum = add;
          break;
      }
      convert(DTypeOf<T>::value, &sum, y.dtype, to, 1);
      for (size_t d = id.size(); d-- > 0 && ++at[d] == id[d];) at[d] = 0;
    }
  };
}
Kernel kernel(const KernelArgs& a) {
  if (!is_float(a.in[0].dtype)) return typed<int64_t>(a);
  return in_double(a) ? typed<double>(a) : typed<float>(a);
}

// Computes the gradients of ScatterElements, as PyTorch's scatter_reduce does.
struct ScatterGrad {
  explicit ScatterGrad(GradBuilder& grad) : g(grad), b(grad.b), axis(g.attrs().i("axis", 0)), type(b.dtype(g.out(0))) {}

  // Returns for each update the element of `data` at the update's position.
  ValueId gathered(ValueId data) { return g.op("GatherElements", {data, g.in(1)}, {{"axis", axis}}); }
  // Returns a tensor of the shape of data. Each element is the sum of v over the updates of this element.
  ValueId collected(ValueId v) {
    return g.op("ScatterElementsAdd", {v, g.in(1)}, {{"axis", axis}, {"dims", g.dims(g.in(0))}});
  }
  ValueId one_where(ValueId condition) { return g.op("Where", {condition, b.scalar(1, type), b.scalar(0, type)}); }

  void replace() {
    if (g.needs(0)) {
      const ValueId zeros = filled(b, 0, b.dtype(g.in(0)), g.dims(g.in(2)));
      g.add_grad(0, g.op("ScatterElements", {g.dy(0), g.in(1), zeros}, g.attrs()));
    }
    if (g.needs(2)) g.add_grad(2, gathered(g.dy(0)));
  }

  // Adds the gradient of max and min. Elements that equal the stored result share the result's gradient evenly.
  void extreme() {
    const ValueId y = g.out(0);
    const ValueId of_data = one_where(g.op("Equal", {b.cast(g.in(0), type), y})),
                  of_updates = one_where(g.op("Equal", {b.cast(g.in(2), type), gathered(y)}));
    const ValueId share = div(b, g.dy(0), add(b, of_data, collected(of_updates)));
    if (g.needs(0)) g.add_grad(0, mul(b, share, of_data));
    if (g.needs(2)) g.add_grad(2, mul(b, gathered(share), of_updates));
  }

  // Adds the gradient of mul: dy times the product of all other factors. The product is y / update, unless the update
  // is the only factor that is 0.
  void product() {
    const auto times = [&](ValueId data, ValueId updates) {
      return g.op("ScatterElements", {data, g.in(1), updates}, g.attrs());
    };
    const ValueId x = b.cast(g.in(0), type), u = b.cast(g.in(2), type), dy = g.dy(0);
    if (g.needs(0)) g.add_grad(0, mul(b, dy, times(filled(b, 1, type, g.dims(x)), u)));
    if (!g.needs(2)) return;
    const ValueId zero = g.op("Equal", {u, b.scalar(0, type)});
    const ValueId factors = g.op("Where", {zero, b.scalar(1, type), u});
    const ValueId alone = g.op("And", {zero, g.op("Equal", {gathered(collected(one_where(zero))), b.scalar(1, type)})});
    const ValueId others = div(b, gathered(mul(b, dy, times(x, u))), factors);
    g.add_grad(2, g.op("Where", {alone, gathered(mul(b, dy, times(x, factors))), others}));
  }

  GradBuilder& g;
  Builder& b;
  int64_t axis;
  DType type;
};

void grad(GradBuilder& g) {
  ScatterGrad s(g);
  switch (g.attrs().i("reduction", kNone)) {
    case kNone:
      return s.replace();
    case kMul:
      return s.product();
    default:
      return s.extreme();
  }
}

OpDef def() {
  OpDef d;
  d.name = "ScatterElements";
  d.infer = infer_same;
  d.gradient = grad;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "ScatterElements", kernel};
const RegisterLookup lookup{"ScatterElements",
                            {1, [](const Graph& g, const Node& n) {
                               return index_into(g.value(n.in[0]).dims.at(static_cast<size_t>(n.attrs.i("axis", 0))),
                                                 IndexBound::axis);
                             }}};

void lower_scatter(Lowering& l) {
  Builder& b = l.b;
  const int64_t axis = normalize_axis(l.attrs.i("axis", 0), l.rank(0));
  if (l.rank(0) != l.rank(1) || l.dims(1) != l.dims(2))
    fail(Exit::model, "E_SHAPE", cat(l.node.op, ": data, indices and updates disagree"));
  const std::string reduction = l.attrs.s("reduction", "none");
  if (reduction == "add") {
    if (!is_float(b.dtype(l.in(0)))) l.unsupported("adding integers");
    return l.out(
        0, add(b, l.in(0), b.op("ScatterElementsAdd", {l.in(2), l.in(1)}, {{"axis", axis}, {"dims", l.dims(0)}})));
  }
  const int64_t kind = reduction == "mul" ? kMul : reduction == "max" ? kMax : reduction == "min" ? kMin : kNone;
  if (kind == kNone && reduction != "none") l.unsupported("reduction '" + reduction + "'");
  l.out(0, b.op("ScatterElements", {l.in(0), l.in(1), l.in(2)}, {{"axis", axis}, {"reduction", kind}}));
}
const RegisterOnnx onnx[] = {RegisterOnnx{{"Scatter", lower_scatter, 9, {}}},
                             RegisterOnnx{{"ScatterElements", lower_scatter, 11, {}}}};

}  // namespace
}  // namespace amp
