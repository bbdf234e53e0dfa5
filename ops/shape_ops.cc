// Shape, Size, ConstantOfShape and Range, which are evaluated when the graph is bound to input shapes (graph/bind.h),
// and operators on indices. CumSum and ScatterND have a gradient, ArgMax and ArgMin have none.
#include <algorithm>
#include <cmath>

#include "backend/indices.h"
#include "graph/limits.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void lower_shape(Lowering& l) {
  const Dims d = l.dims(0);
  const int64_t rank = l.rank(0);
  const auto clamp = [rank](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = clamp(l.attrs.i("start", 0)), end = std::max(start, clamp(l.attrs.i("end", rank)));
  const Dims part(d.begin() + start, d.begin() + end);
  l.out(0, l.b.constant(HostTensor::of<int64_t>({end - start}, part)));
}
void lower_size(Lowering& l) { l.out(0, l.b.scalar(static_cast<double>(numel(l.dims(0))), DType::i64)); }

void lower_constant_of_shape(Lowering& l) {
  const HostTensor* t = l.attrs.tensor("value");
  HostTensor v = t ? *t : HostTensor::scalar<float>(0);
  if (v.numel() != 1) fail(Exit::model, "E_ATTR", cat("ConstantOfShape: value has ", v.numel(), " elements"));
  if (is_float(v.dtype())) v = v.cast(l.float_type());
  l.out(0, l.b.expand(l.b.constant(v.reshaped({})), l.ints(0)));
}

void lower_range(Lowering& l) {
  const DType t = l.b.dtype(l.in(0));
  const double start = l.constant(0).to_doubles().at(0), limit = l.constant(1).to_doubles().at(0),
               delta = l.constant(2).to_doubles().at(0);
  if (delta == 0) fail(Exit::model, "E_ATTR", "Range: delta is 0");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  require_constant(cat("Range from ", start, " to ", limit), 8 * (limit - start) / delta);
  std::vector<double> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = start + delta * static_cast<double>(i);
  l.out(0, l.b.constant(HostTensor::of<double>({static_cast<int64_t>(v.size())}, v).cast(t)));
}

// ---- CumSum. Attributes: axis, exclusive, reverse
template <class T>
Kernel typed_cumsum(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const bool exclusive = a.attrs().i("exclusive", 0) != 0, reverse = a.attrs().i("reverse", 0) != 0;
  int64_t outer = 1, inner = 1;
  const int64_t n = x.dims[axis];
  for (size_t d = 0; d < x.dims.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.dims[d];
  return [=] {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        T sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          const int64_t at = (o * n + (reverse ? n - 1 - k : k)) * inner + i;
          T scratch;
          const T v = *elementwise_detail::load<T>(x, at, 1, &scratch);
          const T out = exclusive ? sum : static_cast<T>(sum + v);
          sum = static_cast<T>(sum + v);
          convert(DTypeOf<T>::value, &out, y.dtype, static_cast<char*>(y.data) + at * size_of(y.dtype), 1);
        }
      }
    }
  };
}
Kernel cumsum_kernel(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::i64) return typed_cumsum<int64_t>(a);
  if (t == DType::i32) return typed_cumsum<int32_t>(a);
  return in_double(a) ? typed_cumsum<double>(a) : typed_cumsum<float>(a);
}
void grad_cumsum(GradBuilder& g) {
  Attrs a = g.attrs();
  a.set("reverse", int64_t{a.i("reverse", 0) == 0});
  g.add_grad(0, g.op("CumSum", {g.dy(0)}, a));
}
void lower_cumsum(Lowering& l) {
  l.out(0, l.b.op("CumSum", {l.in(0)},
                  {{"axis", normalize_axis(l.ints(1).at(0), l.rank(0))},
                   {"exclusive", l.attrs.i("exclusive", 0)},
                   {"reverse", l.attrs.i("reverse", 0)}}));
}

// ---- ArgMax, ArgMin. Attributes: axis, keepdims, select_last_index
void infer_arg(InferCtx& c) {
  Dims d = c.in(0).dims;
  const int64_t axis = c.attrs.i("axis", 0);
  if (c.attrs.i("keepdims", 1) != 0)
    d[static_cast<size_t>(axis)] = 1;
  else
    d.erase(d.begin() + axis);
  c.out(DType::i64, d);
}
template <class T>
Kernel typed_arg(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const bool max = a.node.op->name == "ArgMax", last = a.attrs().i("select_last_index", 0) != 0;
  int64_t outer = 1, inner = 1;
  const int64_t n = x.dims[axis];
  for (size_t d = 0; d < x.dims.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.dims[d];
  return [=] {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        T best = 0;
        int64_t where = 0;
        for (int64_t k = 0; k < n; ++k) {
          T scratch;
          const T v = *elementwise_detail::load<T>(x, (o * n + k) * inner + i, 1, &scratch);
          if (k == 0 || (max ? v > best : v < best) || (last && v == best)) {
            best = v;
            where = k;
          }
        }
        static_cast<int64_t*>(y.data)[o * inner + i] = where;
      }
    }
  };
}
Kernel arg_kernel(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::i64) return typed_arg<int64_t>(a);
  if (t == DType::i32) return typed_arg<int32_t>(a);
  return t == DType::f64 ? typed_arg<double>(a) : typed_arg<float>(a);
}
void lower_arg(Lowering& l) {
  l.out(0, l.b.op(l.node.op, {l.in(0)},
                  {{"axis", normalize_axis(l.attrs.i("axis", 0), l.rank(0))},
                   {"keepdims", l.attrs.i("keepdims", 1)},
                   {"select_last_index", l.attrs.i("select_last_index", 0)}}));
}

// Lowers OneHot to Where(indices == 0..depth-1, on, off); negative indices count from the end.
void lower_one_hot(Lowering& l) {
  Builder& b = l.b;
  const int64_t depth = l.ints(1).at(0);
  if (depth < 0) fail(Exit::model, "E_ATTR", cat("OneHot: depth ", depth));
  require_constant("OneHot", 8.0 * static_cast<double>(depth));
  const int64_t rank = l.rank(0) + 1, axis = normalize_axis(l.attrs.i("axis", -1), rank);
  Dims id = l.dims(0);
  id.insert(id.begin() + axis, 1);
  ValueId idx = b.reshape(b.cast(l.in(0), DType::i64), id);
  idx = b.op("Where", {b.op("Less", {idx, b.scalar(0, DType::i64)}),
                       b.op("Add", {idx, b.scalar(static_cast<double>(depth), DType::i64)}), idx});
  std::vector<int64_t> iota(static_cast<size_t>(depth));
  for (size_t i = 0; i < iota.size(); ++i) iota[i] = static_cast<int64_t>(i);
  Dims classes(static_cast<size_t>(rank), 1);
  classes[static_cast<size_t>(axis)] = depth;
  const ValueId hit = b.op("Equal", {idx, b.constant(HostTensor::of<int64_t>(classes, iota))});
  const auto one_of = [&](int64_t k) {
    return b.reshape(b.op("Slice", {l.in(2)},
                          {{"starts", std::vector<int64_t>{k}}, {"steps", std::vector<int64_t>{1}}, {"dims", Dims{1}}}),
                     {});
  };
  l.out(0, b.op("Where", {hit, one_of(1), one_of(0)}));
}

// Lowers ai.onnx.ml ArrayFeatureExtractor, which selects columns of the last axis.
void lower_array_feature_extractor(Lowering& l) {
  Builder& b = l.b;
  Dims d = l.dims(0);
  const int64_t n = d.back(), outer = numel(d) / std::max<int64_t>(n, 1), k = numel(l.dims(1));
  d.back() = k;
  if (l.rank(0) == 1) d.insert(d.begin(), 1);
  l.out(0, b.op("GatherRows", {l.in(0), b.reshape(l.in(1), {k})},
                {{"outer", outer}, {"n", n}, {"inner", int64_t{1}}, {"dims", d}}));
}

// ---- ScatterND (11): copies data and replaces rows by updates. Data and updates have a gradient.
Kernel scatter_nd(const KernelArgs& a) {
  const Tensor x = a.in[0], rows = a.in[1], u = a.in[2], y = a.out[0];
  const int64_t inner = a.attrs().i("inner", 1), n = a.attrs().i("n", 1);
  return [=] {
    convert(x.dtype, x.data, y.dtype, y.data, x.numel());
    for (int64_t i = 0; i < rows.numel(); ++i) {
      const int64_t r = static_cast<const int64_t*>(rows.data)[i];
      if (r < 0 || r >= n) fail(Exit::data, "E_DATA_INDEX", cat("ScatterND: index ", r, " is outside ", n, " rows"));
      convert(u.dtype, static_cast<const char*>(u.data) + i * inner * size_of(u.dtype), y.dtype,
              static_cast<char*>(y.data) + r * inner * size_of(y.dtype), inner);
    }
  };
}
void grad_scatter_nd(GradBuilder& g) {
  const int64_t inner = g.attrs().i("inner", 1), n = g.attrs().i("n", 1);
  const Dims du = g.dims(g.in(2));
  if (g.needs(0)) {
    const ValueId zeros = g.b.expand(g.b.scalar(0, g.b.dtype(g.in(0))), du);
    g.add_grad(0, g.op("ScatterNDRows", {g.dy(0), g.in(1), zeros}, g.attrs()));
  }
  if (g.needs(2))
    g.add_grad(
        2, g.op("GatherRows", {g.dy(0), g.in(1)}, {{"outer", int64_t{1}}, {"n", n}, {"inner", inner}, {"dims", du}}));
}
void lower_scatter_nd(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0), id = l.dims(1);
  const int64_t depth = id.back();
  if (depth > l.rank(0))
    fail(Exit::model, "E_SHAPE", cat("ScatterND of ", to_string(d), " at indices ", to_string(id)));
  int64_t n = 1;
  std::vector<int64_t> extent, stride(static_cast<size_t>(depth), 1);
  for (int64_t i = 0; i < depth; ++i) {
    extent.push_back(d[static_cast<size_t>(i)]);
    n *= extent.back();
  }
  for (int64_t i = depth - 1; i-- > 0;)
    stride[static_cast<size_t>(i)] = stride[static_cast<size_t>(i + 1)] * extent[static_cast<size_t>(i + 1)];
  const int64_t tuples = depth ? numel(id) / depth : 1;
  const ValueId flat = b.reshape(b.cast(l.in(1), DType::i64), {tuples, depth});
  const ValueId zero = b.scalar(0, DType::i64);
  const ValueId wrapped = b.op(
      "Where",
      {b.op("Less", {flat, zero}), b.op("Add", {flat, b.constant(HostTensor::of<int64_t>({depth}, extent))}), flat});
  const ValueId rows =
      b.reduce_sum(b.op("Mul", {wrapped, b.constant(HostTensor::of<int64_t>({depth}, stride))}), {1}, false);
  const int64_t inner = n ? numel(d) / n : 1;
  const std::string reduction = l.attrs.s("reduction", "none");
  if (reduction == "none")
    return l.out(0, b.op("ScatterNDRows", {l.in(0), rows, l.in(2)}, {{"inner", inner}, {"n", n}}));
  const Dims table{n, inner}, added{tuples, inner};
  if (reduction == "add" && is_float(b.dtype(l.in(0)))) {
    const ValueId sum = b.op("ScatterRows", {b.reshape(l.in(2), added), rows},
                             {{"outer", int64_t{1}}, {"n", n}, {"inner", inner}, {"dims", table}});
    return l.out(0, b.op("Add", {l.in(0), b.reshape(sum, d)}));
  }
  // `kind` is a number of the core operator ScatterElements' attribute `reduction`.
  const int64_t kind = reduction == "mul" ? 1 : reduction == "max" ? 2 : reduction == "min" ? 3 : 0;
  if (kind == 0) l.unsupported("reduction '" + reduction + "' of " + std::string(name_of(b.dtype(l.in(0)))));
  const ValueId at = b.expand(b.reshape(rows, {tuples, 1}), added);
  l.out(0, b.reshape(b.op("ScatterElements", {b.reshape(l.in(0), table), at, b.reshape(l.in(2), added)},
                          {{"axis", int64_t{0}}, {"reduction", kind}}),
                     d));
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, bool none = false) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.not_differentiable = none;
  return d;
}
const RegisterOp ops_[] = {
    RegisterOp{def("CumSum", infer_same, grad_cumsum)}, RegisterOp{def("ArgMax", infer_arg, nullptr, true)},
    RegisterOp{def("ArgMin", infer_arg, nullptr, true)}, RegisterOp{def("ScatterNDRows", infer_same, grad_scatter_nd)}};
const RegisterLookup lookup_nd{"ScatterNDRows", {1, [](const Graph&, const Node& n) {
                                                   return IndexBound{0, n.attrs.i("n", 1), false, 0, IndexBound::axis};
                                                 }}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "CumSum", cumsum_kernel},
                                   {DeviceKind::cpu, "ArgMax", arg_kernel},
                                   {DeviceKind::cpu, "ArgMin", arg_kernel},
                                   {DeviceKind::cpu, "ScatterNDRows", scatter_nd}};

const RegisterOnnx onnx[] = {RegisterOnnx{{"Shape", lower_shape, 1, {}}},
                             RegisterOnnx{{"Size", lower_size, 1, {}}},
                             RegisterOnnx{{"ConstantOfShape", lower_constant_of_shape, 9, {}}},
                             RegisterOnnx{{"Range", lower_range, 11, {}}},
                             RegisterOnnx{{"CumSum", lower_cumsum, 11, {}}},
                             RegisterOnnx{{"ArgMax", lower_arg, 1, {}}},
                             RegisterOnnx{{"ArgMin", lower_arg, 1, {}}},
                             RegisterOnnx{{"OneHot", lower_one_hot, 9, {}}},
                             RegisterOnnx{{"ScatterND", lower_scatter_nd, 11, {}}},
                             RegisterOnnx{{"ArrayFeatureExtractor", lower_array_feature_extractor, 1, "ai.onnx.ml"}}};

}  // namespace
}  // namespace amp
