// Slice, Concat, Split, Expand and Tile: operators that copy regions of tensors. ONNX Slice 1+, Concat 4+, Split 1+,
// Expand 8+, Tile 6+.
#include "ops/slice_concat.h"

#include <algorithm>

#include "ops/elementwise_op.h"

namespace amp {
namespace {

// ---- Slice. Attributes: starts and steps (one per dim); dims: the output's shape
void infer_slice(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }

ValueId simplify_slice(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const auto steps = a.ints("steps");
  return a.ints("dims") == b.dims(in[0]) && std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; })
             ? in[0]
             : ValueId{};
}

Kernel slice_kernel(const KernelArgs& a) {
  return strided_copy(a.in[0], slice_region(a.in[0].dims, a.attrs()), a.out[0], whole(a.out[0].dims), a.out[0].dims);
}

// SliceGrad, the gradient of Slice: copies input 0 into a region of a tensor of zeros with dims `full`.
void infer_slice_grad(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("full")); }
Kernel slice_grad_kernel(const KernelArgs& a) {
  const Tensor y = a.out[0];
  const Kernel copy = strided_copy(a.in[0], whole(a.in[0].dims), y, slice_region(y.dims, a.attrs()), a.in[0].dims);
  return [y, copy] {
    std::memset(y.data, 0, static_cast<size_t>(y.bytes()));
    copy();
  };
}
Attrs with_full(const Attrs& a, const Dims& full) {
  Attrs b = a;
  b.set("full", full);
  return b;
}
void grad_slice(GradBuilder& g) { g.add_grad(0, g.op("SliceGrad", {g.dy(0)}, with_full(g.attrs(), g.dims(g.in(0))))); }
void grad_slice_grad(GradBuilder& g) {
  Attrs a = g.attrs();
  a.set("dims", g.dims(g.in(0)));
  g.add_grad(0, g.op("Slice", {g.dy(0)}, a));
}

// ---- Concat --------------------------------------------------------------------------------------------------------
void infer_concat(InferCtx& c) {
  Dims out = c.in(0).dims;
  const size_t axis = static_cast<size_t>(c.attrs.i("axis", 0));
  for (size_t i = 1; i < c.n_in(); ++i) {
    const Dims& d = c.in(i).dims;
    for (size_t k = 0; k < out.size(); ++k) {
      if (d.size() != out.size() || (k != axis && d[k] != out[k])) {
        fail(Exit::model, "E_SHAPE",
             cat("Concat on axis ", axis, " of ", to_string(c.in(0).dims), " and ", to_string(d)));
      }
    }
    out[axis] += d[axis];
  }
  c.out(c.in(0).dtype, out);
}
// Omits operands without elements along the axis, such as an empty cache that is concatenated before the keys of
// attention.
ValueId simplify_concat(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  if (in.size() == 1) return in[0];
  std::vector<ValueId> kept;
  for (const ValueId x : in) {
    if (b.dims(x)[static_cast<size_t>(a.i("axis", 0))] != 0) kept.push_back(x);
  }
  if (kept.size() == in.size()) return {};
  return kept.empty() ? in[0] : b.op("Concat", kept, a);
}

Kernel in_order(const std::vector<Kernel>& copies) {
  return [copies] {
    for (const Kernel& k : copies) k();
  };
}
Kernel concat_kernel(const KernelArgs& a) {
  std::vector<Kernel> copies;
  for_each_part(a.in, a.out[0].dims, a.attrs(), [&](const Tensor& x, const Region& r) {
    copies.push_back(strided_copy(x, whole(x.dims), a.out[0], r, x.dims));
  });
  return in_order(copies);
}
void grad_concat(GradBuilder& g) {
  const size_t axis = static_cast<size_t>(g.attrs().i("axis", 0));
  int64_t at = 0;
  for (size_t i = 0; i < g.n_in(); ++i) {
    const Dims d = g.dims(g.in(i));
    if (g.needs(i)) {
      std::vector<int64_t> starts(d.size(), 0);
      starts[axis] = at;
      g.add_grad(
          i, g.op("Slice", {g.dy(0)}, {{"starts", starts}, {"steps", std::vector<int64_t>(d.size(), 1)}, {"dims", d}}));
    }
    at += d[axis];
  }
}

// ---- Split. Attributes: axis, sizes
void infer_split(InferCtx& c) {
  const size_t axis = static_cast<size_t>(c.attrs.i("axis", 0));
  for (const int64_t n : c.attrs.ints("sizes")) {
    Dims d = c.in(0).dims;
    d[axis] = n;
    c.out(c.in(0).dtype, d);
  }
}
Kernel split_kernel(const KernelArgs& a) {
  std::vector<Kernel> copies;
  for_each_part(a.out, a.in[0].dims, a.attrs(), [&](const Tensor& y, const Region& r) {
    copies.push_back(strided_copy(a.in[0], r, y, whole(y.dims), y.dims));
  });
  return in_order(copies);
}
void grad_split(GradBuilder& g) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < g.node().out.size(); ++i) parts.push_back(g.dy(i));
  g.add_grad(0, g.op("Concat", parts, {{"axis", g.attrs().i("axis", 0)}}));
}

// ---- Expand
void infer_expand(InferCtx& c) {
  const Dims want = c.attrs.ints("dims");
  if (broadcast(c.in(0).dims, want) != want)
    fail(Exit::model, "E_SHAPE", cat("cannot expand ", to_string(c.in(0).dims), " to ", to_string(want)));
  c.out(c.in(0).dtype, want);
}
ValueId simplify_expand(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  return b.dims(in[0]) == a.ints("dims") ? in[0] : ValueId{};
}
Kernel expand_kernel(const KernelArgs& a) {
  return strided_copy(a.in[0], expanded(a.in[0].dims, a.out[0].dims), a.out[0], whole(a.out[0].dims), a.out[0].dims);
}
void grad_expand(GradBuilder& g) { g.add_grad(0, g.dy(0)); }  // add_grad() sums dy over broadcast dims

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, Simplify simplify = nullptr) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.simplify = simplify;
  d.moves = true;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("Slice", infer_slice, grad_slice, simplify_slice)},
                           RegisterOp{def("SliceGrad", infer_slice_grad, grad_slice_grad)},
                           RegisterOp{def("Concat", infer_concat, grad_concat, simplify_concat)},
                           RegisterOp{def("Split", infer_split, grad_split)},
                           RegisterOp{def("Expand", infer_expand, grad_expand, simplify_expand)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "Slice", slice_kernel},
                                   {DeviceKind::cpu, "SliceGrad", slice_grad_kernel},
                                   {DeviceKind::cpu, "Concat", concat_kernel},
                                   {DeviceKind::cpu, "Split", split_kernel},
                                   {DeviceKind::cpu, "Expand", expand_kernel}};

// ---- Lowering of ONNX operators
void lower_slice(Lowering& l) {
  const Dims in = l.dims(0);
  std::vector<int64_t> starts = l.ints_or_attr(1, "starts"), ends = l.ints_or_attr(2, "ends"), axes, steps;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  axes = l.ints_or_attr(3, "axes", axes);
  steps = l.has(4) ? l.ints(4) : std::vector<int64_t>(starts.size(), 1);
  if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size()) {
    fail(Exit::model, "E_ATTR",
         cat("Slice has ", starts.size(), " starts, ", ends.size(), " ends and ", steps.size(), " steps for ",
             axes.size(), " axes"));
  }
  std::vector<int64_t> first(in.size(), 0), step(in.size(), 1);
  Dims out = in;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = static_cast<size_t>(normalize_axis(axes[i], l.rank(0)));
    const int64_t n = in[d], s = steps.at(i);
    if (s == 0 || s == INT64_MIN) fail(Exit::model, "E_ATTR", cat("Slice: a step is ", s));
    const auto clamp = [n](int64_t v, int64_t lo, int64_t hi) { return std::max(lo, std::min(v < 0 ? v + n : v, hi)); };
    const int64_t b = s > 0 ? clamp(starts[i], 0, n) : clamp(starts[i], 0, n - 1);
    const int64_t e = s > 0 ? clamp(ends.at(i), 0, n) : clamp(ends.at(i), -1, n - 1);
    out[d] = s > 0 ? (e > b ? (e - b - 1) / s + 1 : 0) : (b > e ? (b - e - 1) / -s + 1 : 0);
    first[d] = out[d] == 0 ? 0 : b;
    step[d] = s;
  }
  l.out(0, l.b.op("Slice", {l.in(0)}, {{"starts", first}, {"steps", step}, {"dims", out}}));
}

void lower_concat(Lowering& l) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < l.n_in(); ++i) in.push_back(l.in(i));
  l.out(0, l.b.op("Concat", in, {{"axis", normalize_axis(l.attrs.i("axis", 1), l.rank(0))}}));
}

void lower_split(Lowering& l) {
  const int64_t axis = normalize_axis(l.attrs.i("axis", 0), l.rank(0));
  const int64_t n = l.dims(0)[static_cast<size_t>(axis)];
  std::vector<int64_t> sizes = l.ints_or_attr(1, "split");
  if (sizes.empty()) {
    const int64_t parts = l.attrs.i("num_outputs", static_cast<int64_t>(l.n_out()));
    const auto named = static_cast<int64_t>(l.n_out());
    if (parts < std::max<int64_t>(1, named) || parts > std::max(n, named))
      fail(Exit::model, "E_ATTR", cat("Split of ", n, " elements into ", parts, " parts"));
    const int64_t each = (n + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::min(each, n - each * i));
  }
  int64_t total = 0;
  for (const int64_t s : sizes) {
    if (s < 0 || __builtin_add_overflow(total, s, &total))
      fail(Exit::model, "E_ATTR", cat("Split: a part of ", s, " elements"));
  }
  if (total != n) fail(Exit::model, "E_SHAPE", cat("Split sizes ", to_string(sizes), " do not add up to ", n));
  const auto out = l.b.ops("Split", {l.in(0)}, {{"axis", axis}, {"sizes", sizes}});
  for (size_t i = 0; i < out.size(); ++i) l.out(i, out[i]);
}

void lower_expand(Lowering& l) { l.out(0, l.b.expand(l.in(0), broadcast(l.dims(0), l.ints(1)))); }

// Lowers Tile: [.., n, ..] repeated r times is Expand of [.., 1, n, ..] to [.., r, n, ..], reshaped.
void lower_tile(Lowering& l) {
  const Dims in = l.dims(0);
  const std::vector<int64_t> repeats = l.ints(1);
  if (repeats.size() != in.size())
    fail(Exit::model, "E_ATTR", cat("Tile of ", to_string(in), " by ", to_string(repeats)));
  Dims lifted, wide, out;
  for (size_t d = 0; d < in.size(); ++d) {
    lifted.insert(lifted.end(), {1, in[d]});
    wide.insert(wide.end(), {repeats.at(d), in[d]});
    out.push_back(checked_mul(in[d], repeats[d]));
  }
  l.out(0, l.b.reshape(l.b.expand(l.b.reshape(l.in(0), lifted), wide), out));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"Slice", lower_slice, 1, {}}}, RegisterOnnx{{"Concat", lower_concat, 4, {}}},
                             RegisterOnnx{{"Split", lower_split, 1, {}}}, RegisterOnnx{{"Expand", lower_expand, 8, {}}},
                             RegisterOnnx{{"Tile", lower_tile, 6, {}}}};

}  // namespace
}  // namespace amp
