// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd and the reductions composed of them: L1, L2, SumSquare,
// LogSum, LogSumExp (ONNX 1+). The axes are an attribute up to opset 12 (ReduceSum) or 17 (the others), and an input in
// later opsets. noop_with_empty_axes is supported.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/elementwise_op.h"
#include "ops/reduce_shape.h"
#include "ops/term.h"

namespace amp {
namespace {

void infer_reduce(InferCtx& c) {
  c.out(c.in(0).dtype, reduced_dims(c.in(0).dims, c.attrs.ints("axes"), c.attrs.i("keepdims", 1) != 0));
}

enum { kSum, kMax, kMin, kProd };
const char* const kNames[] = {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"};

// Rewrites a reduction as several core reductions, each over one run of adjacent axes, from the innermost run outwards.
// Returns an invalid id if the reduction already has this form.
ValueId simplify_reduce(Builder& b, const char* name, const std::vector<ValueId>& in, const Attrs& a) {
  const Dims dims = b.dims(in[0]);
  std::vector<int64_t> axes = a.ints("axes");
  const Dims final_dims = reduced_dims(dims, axes, a.i("keepdims", 1) != 0);
  std::vector<int64_t> big;
  for (const int64_t x : axes) {
    if (dims[static_cast<size_t>(x)] != 1) big.push_back(x);
  }
  std::sort(big.begin(), big.end());
  if (big.empty()) return b.reshape(in[0], final_dims);
  // Finds the first axis of the innermost run of adjacent axes. Dims of size 1 do not break a run.
  size_t start = big.size() - 1;
  const auto adjacent = [&](int64_t lo, int64_t hi) {
    for (int64_t d = lo + 1; d < hi; ++d) {
      if (dims[static_cast<size_t>(d)] != 1) return false;
    }
    return true;
  };
  while (start > 0 && adjacent(big[start - 1], big[start])) --start;
  if (start == 0) {
    if (big.size() == axes.size()) return {};  // already one run, and no axis has size 1
    return b.reshape(b.op(name, {in[0]}, {{"axes", big}, {"keepdims", int64_t{1}}}), final_dims);
  }
  const std::vector<int64_t> inner(big.begin() + static_cast<int64_t>(start), big.end());
  const std::vector<int64_t> rest(big.begin(), big.begin() + static_cast<int64_t>(start));
  const ValueId first = b.op(name, {in[0]}, {{"axes", inner}, {"keepdims", int64_t{1}}});
  return b.reshape(b.op(name, {first}, {{"axes", rest}, {"keepdims", int64_t{1}}}), final_dims);
}
ValueId simplify_sum(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  return simplify_reduce(b, "ReduceSum", in, a);
}
ValueId simplify_max(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  return simplify_reduce(b, "ReduceMax", in, a);
}
ValueId simplify_min(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  return simplify_reduce(b, "ReduceMin", in, a);
}
ValueId simplify_prod(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  return simplify_reduce(b, "ReduceProd", in, a);
}

template <int Op, class T>
AMP_INLINE inline T combine(T a, T b) {
  if constexpr (Op == kSum)
    return static_cast<T>(a + b);
  else if constexpr (Op == kProd)
    return static_cast<T>(a * b);
  else if constexpr (Op == kMax)
    return b > a || b != b ? b : a;  // the result is NaN if an element is
  else
    return b < a || b != b ? b : a;
}
template <int Op, class T>
T identity() {
  using L = std::numeric_limits<T>;
  if constexpr (Op == kSum)
    return T(0);
  else if constexpr (Op == kProd)
    return T(1);
  else if constexpr (Op == kMax)
    return L::has_infinity ? -L::infinity() : L::lowest();
  else
    return L::has_infinity ? L::infinity() : L::max();
}

// Reduces x, which is viewed as (outer, n, inner), over n.
template <int Op, class T>
Kernel typed_reduce(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const ReduceShape shape(x.dims, a.attrs().ints("axes"));
  const int64_t outer = shape.outer, n = shape.n, inner = shape.inner;
  if (y.numel() == 0) return [] {};
  constexpr int64_t kBlock = 256;
  if (inner == 1) {
    return [=] {
      parallel_ranges(outer, 16384 / (n + 1) + 1, [&](int64_t b, int64_t e) {
        alignas(64) T scratch[1024];
        for (int64_t o = b; o < e; ++o) {
          T total = identity<Op, T>();
          for (int64_t at = 0; at < n; at += 1024) {
            const int64_t m = std::min<int64_t>(1024, n - at);
            const T* p = elementwise_detail::load<T>(x, o * n + at, m, scratch);
            simd_for<T>([&]() AMP_INLINE {
              T lane[16];
              for (int j = 0; j < 16; ++j) lane[j] = identity<Op, T>();
              int64_t i = 0;
              for (; i + 16 <= m; i += 16) {
                for (int j = 0; j < 16; ++j) lane[j] = combine<Op>(lane[j], p[i + j]);
              }
              for (; i < m; ++i) lane[0] = combine<Op>(lane[0], p[i]);
              for (int w = 8; w > 0; w /= 2) {
                for (int j = 0; j < w; ++j) lane[j] = combine<Op>(lane[j], lane[j + w]);
              }
              total = combine<Op>(total, lane[0]);
            });
          }
          convert(DTypeOf<T>::value, &total, y.dtype, static_cast<char*>(y.data) + o * size_of(y.dtype), 1);
        }
      });
    };
  }
  const int64_t blocks = (inner + kBlock - 1) / kBlock;
  return [=] {
    parallel_ranges(outer * blocks, 32768 / (n * std::min(inner, kBlock) + 1) + 1, [&](int64_t b, int64_t e) {
      alignas(64) T scratch[kBlock], sum[kBlock];
      for (int64_t t = b; t < e; ++t) {
        const int64_t o = t / blocks, c = (t % blocks) * kBlock, m = std::min(kBlock, inner - c);
        std::fill(sum, sum + m, identity<Op, T>());
        for (int64_t i = 0; i < n; ++i) {
          const T* p = elementwise_detail::load<T>(x, (o * n + i) * inner + c, m, scratch);
          simd_for<T>([&]() AMP_INLINE {
            for (int64_t j = 0; j < m; ++j) sum[j] = combine<Op>(sum[j], p[j]);
          });
        }
        convert(DTypeOf<T>::value, sum, y.dtype, static_cast<char*>(y.data) + (o * inner + c) * size_of(y.dtype), m);
      }
    });
  };
}

template <int Op>
Kernel reduce_kernel(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::i64) return typed_reduce<Op, int64_t>(a);
  if (t == DType::i32) return typed_reduce<Op, int32_t>(a);
  if (!is_float(t)) fail(Exit::unsupported, "E_DTYPE", cat(a.node.op->name, " has no kernel for ", name_of(t)));
  return in_double(a) ? typed_reduce<Op, double>(a) : typed_reduce<Op, float>(a);
}

// Returns v with the reduced axes restored as extents of 1, so that it broadcasts against the input.
ValueId keep(GradBuilder& g, ValueId v) {
  return g.b.reshape(v, reduced_dims(g.dims(g.in(0)), g.attrs().ints("axes"), true));
}
void grad_sum(GradBuilder& g) { g.add_grad(0, g.b.expand(keep(g, g.dy(0)), g.dims(g.in(0)))); }
// Gradient of ReduceMax and ReduceMin: it goes to the elements that equal the result, in equal parts for ties (as in
// PyTorch's amax). For this comparison the result must have the input's storage type.
void grad_extreme(GradBuilder& g) {
  const DType t = g.b.dtype(g.in(0));
  const ValueId hit = g.b.cast(g.op("Equal", {g.in(0), keep(g, g.out(0))}), t);
  const ValueId count = g.b.reduce_sum(hit, g.attrs().ints("axes"), true);
  g.add_grad(0, g.op("Mul", {hit, g.op("Div", {keep(g, g.dy(0)), count})}));
}
// Gradient of ReduceProd. The derivative by an element is the product of the other elements. Without zeros, that is the
// total product divided by the element. With one zero, it is 0 except at the zero. With more zeros, it is 0 everywhere.
void grad_prod(GradBuilder& g) {
  const DType t = g.b.dtype(g.in(0));
  const auto axes = g.attrs().ints("axes");
  const ValueId zero = g.b.scalar(0, t), is_zero = g.op("Equal", {g.in(0), zero});
  const ValueId zeros = g.b.reduce_sum(g.b.cast(is_zero, t), axes, true);
  const ValueId others = g.op("Where", {is_zero, g.b.scalar(1, t), g.in(0)});  // zeros are replaced by 1
  const ValueId product = g.op("ReduceProd", {others}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const ValueId at_zero = g.op("Where", {g.op("Equal", {zeros, g.b.scalar(1, t)}), product, zero});
  const ValueId elsewhere = g.op("Where", {g.op("Equal", {zeros, zero}), g.op("Div", {product, others}), zero});
  g.add_grad(0, g.op("Mul", {keep(g, g.dy(0)), g.op("Where", {is_zero, at_zero, elsewhere})}));
}

// Decomposes ReduceProd into a tree of products, for second derivatives. If an element is 0, the gradient by grad_prod
// is correct, but the derivative of that gradient is not.
std::vector<ValueId> decompose_prod(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  Term x(b, in[0]);
  const Dims reduced = reduced_dims(x.dims(), a.ints("axes"), a.i("keepdims", 1) != 0);
  for (const int64_t axis : a.ints("axes")) {
    const auto part = [&](int64_t from, int64_t n) { return Term(b, slice(b, x, axis, from, n)); };
    Dims one = x.dims();
    one[static_cast<size_t>(axis)] = 1;
    Term odd(b, filled(b, 1, b.dtype(x), one));
    int64_t n = x.dims()[static_cast<size_t>(axis)];
    for (; n > 1; n /= 2) {
      if (n % 2) odd = odd * part(n - 1, 1);
      x = part(0, n / 2) * part(n / 2, n / 2);
    }
    x = n > 0 ? x * odd : odd;
  }
  return {x.shaped(reduced)};
}

OpDef def(const char* name, Gradient gradient, Simplify simplify, bool moves = false,
          Decomposition decomposition = nullptr) {
  OpDef d;
  d.decomposition = decomposition;
  d.name = name;
  d.infer = infer_reduce;
  d.moves = moves;
  d.gradient = gradient;
  d.simplify = simplify;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def(kNames[kSum], grad_sum, simplify_sum)},
                           RegisterOp{def(kNames[kMax], grad_extreme, simplify_max, true)},
                           RegisterOp{def(kNames[kMin], grad_extreme, simplify_min, true)},
                           RegisterOp{def(kNames[kProd], grad_prod, simplify_prod, false, decompose_prod)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, kNames[kSum], reduce_kernel<kSum>},
                                   {DeviceKind::cpu, kNames[kMax], reduce_kernel<kMax>},
                                   {DeviceKind::cpu, kNames[kMin], reduce_kernel<kMin>},
                                   {DeviceKind::cpu, kNames[kProd], reduce_kernel<kProd>}};

// ---- Lowering of ONNX operators
struct Plan {
  std::vector<int64_t> axes;
  int64_t keepdims;
  int64_t count;  // elements per result
  bool noop;
};
Plan plan(const Lowering& l) {
  Plan p{l.ints_or_attr(1, "axes"), l.attrs.i("keepdims", 1), 1, false};
  if (p.axes.empty()) {
    p.noop = l.attrs.i("noop_with_empty_axes", 0) != 0;
    p.axes.resize(static_cast<size_t>(l.rank(0)));
    std::iota(p.axes.begin(), p.axes.end(), int64_t{0});
    if (p.noop) p.axes.clear();
  }
  for (int64_t& a : p.axes) {
    a = normalize_axis(a, l.rank(0));
    p.count *= l.dims(0)[static_cast<size_t>(a)];
  }
  return p;
}
ValueId reduce(Lowering& l, const Plan& p, const char* name, ValueId x) {
  return p.axes.empty() ? x : l.b.op(name, {x}, {{"axes", p.axes}, {"keepdims", p.keepdims}});
}
template <int Op>
void lower_reduce(Lowering& l) {
  if (l.b.dtype(l.in(0)) != DType::boolean) return l.out(0, reduce(l, plan(l), kNames[Op], l.in(0)));
  l.out(0, l.b.cast(reduce(l, plan(l), kNames[Op], l.b.cast(l.in(0), DType::i32)), DType::boolean));
}
void lower_mean(Lowering& l) {
  const Plan p = plan(l);
  const ValueId sum = reduce(l, p, "ReduceSum", l.in(0));
  const DType t = l.b.dtype(sum);
  l.out(0, is_float(t) ? l.b.op("Mul", {sum, l.b.scalar(1.0 / static_cast<double>(p.count), t)})
                       : l.b.op("Div", {sum, l.b.scalar(static_cast<double>(p.count), t)}));
}
void lower_l1(Lowering& l) { l.out(0, reduce(l, plan(l), "ReduceSum", l.b.op("Abs", {l.in(0)}))); }
ValueId sum_square(Lowering& l, const Plan& p) { return reduce(l, p, "ReduceSum", l.b.op("Mul", {l.in(0), l.in(0)})); }
void lower_sum_square(Lowering& l) { l.out(0, sum_square(l, plan(l))); }
// Lowers ReduceL2. The gradient of a norm of 0 is set to 0, as in PyTorch. The root's derivative is infinite at 0, and
// its product with x = 0 would be NaN.
void lower_l2(Lowering& l) {
  Builder& b = l.b;
  const ValueId s = sum_square(l, plan(l));
  const DType t = b.dtype(s);
  if (!is_float(t)) return l.out(0, b.cast(b.op("Sqrt", {b.cast(s, DType::f64)}), t));
  const ValueId zero = b.scalar(0, t), none = b.op("Equal", {s, zero});
  l.out(0, b.op("Where", {none, zero, b.op("Sqrt", {b.op("Where", {none, b.scalar(1, t), s})})}));
}
void lower_log_sum(Lowering& l) { l.out(0, l.b.op("Log", {reduce(l, plan(l), "ReduceSum", l.in(0))})); }
// Lowers ReduceLogSumExp to log(sum(e^(x - top))) + top, where top is the maximum, or 0 if the maximum is infinite. So
// the result is -inf if all elements are -inf, as in onnxruntime and PyTorch, and +inf if an element is +inf. The
// gradients through top cancel.
void lower_log_sum_exp(Lowering& l) {
  const Plan p = plan(l);
  Builder& b = l.b;
  const ValueId most = b.op("ReduceMax", {l.in(0)}, {{"axes", p.axes}, {"keepdims", int64_t{1}}});
  const ValueId top = b.op("Where", {b.op("IsInf", {most}), b.scalar(0, b.dtype(most)), most});
  const ValueId sum = b.reduce_sum(b.op("Exp", {b.op("Sub", {l.in(0), top})}), p.axes, true);
  const DType t = b.dtype(sum);
  const ValueId none = b.op("Equal", {sum, b.scalar(0, t)});  // all elements are -inf: no gradient
  const ValueId log = b.op("Log", {b.op("Where", {none, b.scalar(1, t), sum})});
  const ValueId y =
      b.op("Where", {none, b.scalar(-std::numeric_limits<double>::infinity(), t), b.op("Add", {log, top})});
  l.out(0, b.reshape(y, reduced_dims(l.dims(0), p.axes, p.keepdims != 0)));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"ReduceSum", lower_reduce<kSum>, 1, {}}},
                             RegisterOnnx{{"ReduceMean", lower_mean, 1, {}}},
                             RegisterOnnx{{"ReduceMax", lower_reduce<kMax>, 1, {}}},
                             RegisterOnnx{{"ReduceMin", lower_reduce<kMin>, 1, {}}},
                             RegisterOnnx{{"ReduceProd", lower_reduce<kProd>, 1, {}}},
                             RegisterOnnx{{"ReduceL1", lower_l1, 1, {}}},
                             RegisterOnnx{{"ReduceL2", lower_l2, 1, {}}},
                             RegisterOnnx{{"ReduceSumSquare", lower_sum_square, 1, {}}},
                             RegisterOnnx{{"ReduceLogSum", lower_log_sum, 1, {}}},
                             RegisterOnnx{{"ReduceLogSumExp", lower_log_sum_exp, 1, {}}}};

}  // namespace
}  // namespace amp
