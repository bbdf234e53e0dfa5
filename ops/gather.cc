// Gather (ONNX 1+), GatherElements (11), GatherND (11; batch_dims 12) and their gradients, which add dy at the indices.
// Indices are checked when a kernel runs: an index out of bounds is a data error (E_DATA_TOKEN_RANGE) instead of an
// invalid read.
#include <algorithm>
#include <numeric>

#include "backend/cpu/gemm/dequantize.h"
#include "backend/indices.h"
#include "backend/parallel.h"
#include "ops/dequantize_matrix.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

[[noreturn]] void bad_index(int64_t index, int64_t n) {
  fail(Exit::data, "E_DATA_TOKEN_RANGE", cat("index ", index, " is outside a table of ", n, " rows"),
       "does the tokenizer (vocabulary) belong to this model?");
}
int64_t checked_index(int64_t i, int64_t n) {
  if (i < -n || i >= n) bad_index(i, n);
  return i < 0 ? i + n : i;
}
int64_t index_at(const Tensor& t, int64_t i) {
  return t.dtype == DType::i64 ? static_cast<const int64_t*>(t.data)[i] : static_cast<const int32_t*>(t.data)[i];
}
void require_index_type(const Tensor& t) {
  if (t.dtype != DType::i64 && t.dtype != DType::i32)
    fail(Exit::model, "E_ATTR", cat("indices are ", name_of(t.dtype), ", not int32 or int64"));
}

// ---- Core GatherRows: data (outer, n, inner), indices (k) -> (outer, k, inner). Attributes: outer, n, inner, dims
void infer_rows(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }

// Gathers rows of a table that is not stored in floating point: dequantizes only these rows.
Kernel gather_quantized(const KernelArgs& a) {
  const Tensor idx = a.in[1], y = a.out[0];
  require_index_type(idx);
  const int64_t outer = a.attrs().i("outer", 1), n = a.attrs().i("n", 1), inner = a.attrs().i("inner", 1),
                k = idx.numel();
  return [=, table = quantized_matrix(*a.deferred), type = a.in[0].dtype] {
    parallel_ranges(outer * k, 16384 / (inner + 1) + 1, [&](int64_t b, int64_t e) {
      thread_local std::vector<float> row;
      row.resize(static_cast<size_t>(inner));
      for (int64_t r = b; r < e; ++r) {
        // Offset of the row's first element or, along axis 1, of its only element.
        const int64_t at = (r / k * n + checked_index(index_at(idx, r % k), n)) * inner;
        cpu::dequantize(table, at / table.columns, 1, at % table.columns, inner, type, row.data());
        convert(type, row.data(), y.dtype, static_cast<char*>(y.data) + r * inner * size_of(y.dtype), inner);
      }
    });
  };
}

Kernel gather_rows(const KernelArgs& a) {
  if (a.deferred) return gather_quantized(a);
  const Tensor x = a.in[0], idx = a.in[1], y = a.out[0];
  require_index_type(idx);
  const int64_t outer = a.attrs().i("outer", 1), n = a.attrs().i("n", 1), inner = a.attrs().i("inner", 1),
                k = idx.numel();
  return [=] {
    const int64_t xs = size_of(x.dtype), ys = size_of(y.dtype);
    parallel_ranges(outer * k, 16384 / (inner + 1) + 1, [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r) {
        const int64_t row = checked_index(index_at(idx, r % k), n);
        convert(x.dtype, static_cast<const char*>(x.data) + (r / k * n + row) * inner * xs, y.dtype,
                static_cast<char*>(y.data) + r * inner * ys, inner);
      }
    });
  };
}

// Adds the rows of dy (outer, k, inner) to y (outer, n, inner) at the indices (k), in the order of the indices. y
// starts with zeros or, if `accumulate`, with its existing values. T: y's type.
template <class T, bool accumulate>
Kernel typed_scatter_rows(const KernelArgs& a) {
  const Tensor dy = a.in[0], idx = a.in[1], y = a.out[0];
  require_index_type(idx);
  const int64_t outer = a.attrs().i("outer", 1), n = a.attrs().i("n", 1), inner = a.attrs().i("inner", 1),
                k = idx.numel();
  T* const sum = y.dtype == DTypeOf<T>::value ? static_cast<T*>(y.data) : static_cast<T*>(a.workspace);
  constexpr int64_t kBlock = 64;  // columns per shard; a column has one shard, so additions do not race
  const int64_t blocks = (inner + kBlock - 1) / kBlock;
  return [=] {
    if (!accumulate)
      parallel_ranges(y.numel(), 65536,
                      [&](int64_t b, int64_t e) { std::memset(sum + b, 0, static_cast<size_t>(e - b) * sizeof(T)); });
    parallel_ranges(outer * blocks, 16384 / (k * kBlock + 1) + 1, [&](int64_t b, int64_t e) {
      T scratch[kBlock];
      for (int64_t t = b; t < e; ++t) {
        const int64_t o = t / blocks, c = (t % blocks) * kBlock, m = std::min(kBlock, inner - c);
        for (int64_t j = 0; j < k; ++j) {
          const int64_t row = checked_index(index_at(idx, j), n);
          const T* p = elementwise_detail::load<T>(dy, (o * k + j) * inner + c, m, scratch);
          T* q = sum + (o * n + row) * inner + c;
          for (int64_t i = 0; i < m; ++i) q[i] += p[i];
        }
      }
    });
    if (sum != y.data) convert(DTypeOf<T>::value, sum, y.dtype, y.data, y.numel());
  };
}
template <bool accumulate>
Kernel scatter_rows(const KernelArgs& a) {
  return in_double(a) ? typed_scatter_rows<double, accumulate>(a) : typed_scatter_rows<float, accumulate>(a);
}
int64_t scatter_workspace(const Graph& g, const Node& n) {
  const Value& y = g.value(n.out[0]);
  return is_low(y.dtype) ? numel(y.dims) * 4 : 0;
}

Attrs with_dims(const Attrs& a, const Dims& d) {
  Attrs b = a;
  b.set("dims", d);
  return b;
}
void grad_gather_rows(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("ScatterRows", {g.dy(0), g.in(1)}, with_dims(g.attrs(), g.dims(g.in(0)))));
}
void grad_scatter_rows(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("GatherRows", {g.dy(0), g.in(1)}, with_dims(g.attrs(), g.dims(g.in(0)))));
}

// ---- Core GatherElements along an axis: data and indices have equal rank. The gradient is ScatterElementsAdd.
void infer_elements(InferCtx& c) { c.out(c.in(0).dtype, c.in(1).dims); }
void infer_elements_grad(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }

// Calls f(offset in the data, position in idx) for every index in idx.
template <class F>
void walk_elements(const Dims& data, const Tensor& idx, size_t axis, F f) {
  const Dims strides = row_major_strides(data), id = idx.dims;
  std::vector<int64_t> at(id.size(), 0);
  for (int64_t i = 0; i < idx.numel(); ++i) {
    int64_t offset = checked_index(index_at(idx, i), data[axis]) * strides[axis];
    for (size_t d = 0; d < id.size(); ++d) offset += d == axis ? 0 : at[d] * strides[d];
    f(offset, i);
    for (size_t d = id.size(); d-- > 0 && ++at[d] == id[d];) at[d] = 0;
  }
}
Kernel gather_elements(const KernelArgs& a) {
  const Tensor x = a.in[0], idx = a.in[1], y = a.out[0];
  require_index_type(idx);
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  return [=] {
    const int64_t xs = size_of(x.dtype), ys = size_of(y.dtype);
    walk_elements(x.dims, idx, axis, [&](int64_t offset, int64_t i) {
      convert(x.dtype, static_cast<const char*>(x.data) + offset * xs, y.dtype, static_cast<char*>(y.data) + i * ys, 1);
    });
  };
}
template <class T>
Kernel typed_scatter_elements(const KernelArgs& a) {
  const Tensor dy = a.in[0], idx = a.in[1], y = a.out[0];
  require_index_type(idx);
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  T* const sum = y.dtype == DTypeOf<T>::value ? static_cast<T*>(y.data) : static_cast<T*>(a.workspace);
  return [=] {
    std::memset(sum, 0, static_cast<size_t>(y.numel()) * sizeof(T));
    T scratch;
    walk_elements(y.dims, idx, axis,
                  [&](int64_t offset, int64_t i) { sum[offset] += *elementwise_detail::load<T>(dy, i, 1, &scratch); });
    if (sum != y.data) convert(DTypeOf<T>::value, sum, y.dtype, y.data, y.numel());
  };
}
Kernel scatter_elements(const KernelArgs& a) {
  return in_double(a) ? typed_scatter_elements<double>(a) : typed_scatter_elements<float>(a);
}
void grad_gather_elements(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("ScatterElementsAdd", {g.dy(0), g.in(1)}, with_dims(g.attrs(), g.dims(g.in(0)))));
}
void grad_scatter_elements(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("GatherElements", {g.dy(0), g.in(1)}, {{"axis", g.attrs().i("axis", 0)}}));
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, bool scatters) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  if (scatters) d.workspace = scatter_workspace;
  if (d.name == "GatherRows") d.reads_deferred = 0;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("GatherRows", infer_rows, grad_gather_rows, false)},
                           RegisterOp{def("ScatterRows", infer_rows, grad_scatter_rows, true)},
                           RegisterOp{def("GatherElements", infer_elements, grad_gather_elements, false)},
                           RegisterOp{def("ScatterElementsAdd", infer_elements_grad, grad_scatter_elements, true)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "GatherRows", gather_rows},
                                   {DeviceKind::cpu, "ScatterRows", scatter_rows<false>},
                                   {DeviceKind::cpu, "ScatterRows+=", scatter_rows<true>},
                                   {DeviceKind::cpu, "GatherElements", gather_elements},
                                   {DeviceKind::cpu, "ScatterElementsAdd", scatter_elements}};

IndexBound of_rows(const Graph&, const Node& n) { return index_into(n.attrs.i("n", 1)); }
const RegisterLookup lookup_rows{"GatherRows", {1, of_rows, true}},
    lookup_scatter{"ScatterRows", {1, of_rows, false, true}};
const RegisterLookup lookup_elements{
    "GatherElements",
    {1,
     [](const Graph& g, const Node& n) {
       return index_into(g.value(n.in[0]).dims.at(static_cast<size_t>(n.attrs.i("axis", 0))));
     },
     true}};
const RegisterLookup lookup_scatter_elements{
    "ScatterElementsAdd", {1, [](const Graph& g, const Node& n) {
                             return index_into(g.value(n.out[0]).dims.at(static_cast<size_t>(n.attrs.i("axis", 0))));
                           }}};

// ---- Lowering of ONNX operators
ValueId rows(Lowering& l, ValueId x, ValueId idx, int64_t axis, Dims out) {
  Builder& b = l.b;
  const Dims d = b.dims(x);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(d.size()); ++i) {
    if (i < axis) outer *= d[static_cast<size_t>(i)];
    if (i > axis) inner *= d[static_cast<size_t>(i)];
  }
  return b.op("GatherRows", {x, idx},
              {{"outer", outer}, {"n", d[static_cast<size_t>(axis)]}, {"inner", inner}, {"dims", std::move(out)}});
}

void lower_gather(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0), id = l.dims(1);
  const size_t axis = static_cast<size_t>(normalize_axis(l.attrs.i("axis", 0), l.rank(0)));
  Dims out(d.begin(), d.begin() + static_cast<int64_t>(axis));
  out.insert(out.end(), id.begin(), id.end());
  out.insert(out.end(), d.begin() + static_cast<int64_t>(axis) + 1, d.end());
  if (const HostTensor* t = b.constant_of(l.in(1)); t && t->numel() > 0) {
    // If the indices are consecutive, a slice reads the rows (for example, of the CLS token or of
    // position embeddings).
    const std::vector<int64_t> idx = t->to_ints();
    const int64_t n = d[axis];
    for (const int64_t i : idx) {
      if (i < -n || i >= n)
        fail(Exit::model, "E_INDEX", cat("the model's constant index ", i, " is outside an axis of ", n));
    }
    const int64_t first = checked_index(idx[0], n);
    bool run = true;
    for (size_t i = 0; i < idx.size(); ++i) run = run && checked_index(idx[i], n) == first + static_cast<int64_t>(i);
    if (run) {
      Dims part = d;
      part[axis] = static_cast<int64_t>(idx.size());
      std::vector<int64_t> starts(d.size(), 0);
      starts[axis] = first;
      const ValueId s =
          b.op("Slice", {l.in(0)}, {{"starts", starts}, {"steps", std::vector<int64_t>(d.size(), 1)}, {"dims", part}});
      return l.out(0, b.reshape(s, out));
    }
  }
  l.out(0, rows(l, l.in(0), l.in(1), static_cast<int64_t>(axis), out));
}

void lower_gather_elements(Lowering& l) {
  if (l.rank(0) != l.rank(1)) fail(Exit::model, "E_SHAPE", "GatherElements: data and indices differ in rank");
  l.out(0, l.b.op("GatherElements", {l.in(0), l.in(1)}, {{"axis", normalize_axis(l.attrs.i("axis", 0), l.rank(0))}}));
}

// Lowers GatherND: converts index tuples to row numbers of a table in which the gathered dims are merged, then gathers
// rows.
void lower_gather_nd(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0), id = l.dims(1);
  const int64_t batch = l.attrs.i("batch_dims", 0);
  const int64_t depth = id.back();
  if (batch < 0 || batch >= static_cast<int64_t>(id.size()) || batch > static_cast<int64_t>(d.size()) || depth < 0 ||
      depth > static_cast<int64_t>(d.size()) - batch || !std::equal(d.begin(), d.begin() + batch, id.begin())) {
    fail(Exit::model, "E_SHAPE",
         cat("GatherND of ", to_string(d), " at indices ", to_string(id), " with ", batch, " batch dimensions"));
  }
  Dims out(id.begin(), id.end() - 1);
  out.insert(out.end(), d.begin() + batch + depth, d.end());
  int64_t batches = 1, table = 1, tuples = 1;
  for (int64_t i = 0; i < batch; ++i) batches *= d[static_cast<size_t>(i)];
  for (int64_t i = batch; i < batch + depth; ++i) table *= d[static_cast<size_t>(i)];
  for (size_t i = static_cast<size_t>(batch); i + 1 < id.size(); ++i) tuples *= id[i];
  // row = sum of index * stride over the tuple (negative indices count from the end), plus the batch entry's first row
  const ValueId flat = b.reshape(b.cast(l.in(1), DType::i64), {batches * tuples, depth});
  std::vector<int64_t> extent, stride(static_cast<size_t>(depth), 1);
  for (int64_t i = 0; i < depth; ++i) extent.push_back(d[static_cast<size_t>(batch + i)]);
  for (int64_t i = depth - 1; i-- > 0;)
    stride[static_cast<size_t>(i)] = stride[static_cast<size_t>(i + 1)] * extent[static_cast<size_t>(i + 1)];
  const ValueId zero = b.scalar(0, DType::i64);
  const ValueId wrapped = b.op(
      "Where",
      {b.op("Less", {flat, zero}), b.op("Add", {flat, b.constant(HostTensor::of<int64_t>({depth}, extent))}), flat});
  ValueId row = b.reduce_sum(b.op("Mul", {wrapped, b.constant(HostTensor::of<int64_t>({depth}, stride))}), {1}, false);
  if (batches > 1) {
    std::vector<int64_t> base;
    for (int64_t i = 0; i < batches * tuples; ++i) base.push_back(i / tuples * table);
    row = b.op("Add", {row, b.constant(HostTensor::of<int64_t>({batches * tuples}, base))});
  }
  const int64_t inner = batches * table == 0 ? 1 : numel(d) / (batches * table);
  const ValueId x = b.reshape(l.in(0), {batches * table, inner});
  // If all rows are gathered once and in order, the result is a view of the input.
  if (const HostTensor* t = b.constant_of(row); t && t->numel() == batches * table) {
    const std::vector<int64_t> r = t->to_ints();
    std::vector<int64_t> iota(r.size());
    std::iota(iota.begin(), iota.end(), int64_t{0});
    if (r == iota) return l.out(0, b.reshape(l.in(0), out));
  }
  l.out(0, b.reshape(rows(l, x, row, 0, {batches * tuples, inner}), out));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"Gather", lower_gather, 1, {}}},
                             RegisterOnnx{{"GatherElements", lower_gather_elements, 11, {}}},
                             RegisterOnnx{{"GatherND", lower_gather_nd, 11, {}}}};

}  // namespace
}  // namespace amp
