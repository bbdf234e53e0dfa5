// MatMul (ONNX 1+), Gemm (7+), com.microsoft FusedMatMul, FusedGemm, GemmFastGelu. Core MatMul: Y = alpha op(A) op(B)
// [+ bias]. Batch dims broadcast; bias has one element per column.
#include "ops/matmul.h"

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/packed_gemm.h"
#include "backend/cpu/operands.h"
#include "backend/node_work.h"
#include "ops/composed/fused_activation.h"
#include "ops/dequantize_matrix.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer_matmul(InferCtx& c) {
  MatMulShape s = matmul_shape(c.in(0).dims, c.in(1).dims, c.attrs);
  s.batch.insert(s.batch.end(), {s.m, s.n});
  c.out(c.in(0).dtype, s.batch);
}

// dA = dY B^T and dB = A^T dY, each transposed if the operand is stored transposed. If all matrices of the batch share
// a 2-D B, dB is one product over the flattened batch.
void grad_matmul(GradBuilder& g) {
  const ValueId a = g.in(0), b = g.in(1), dy = g.dy(0);
  const bool ta = g.attrs().i("transA", 0) != 0, tb = g.attrs().i("transB", 0) != 0;
  const double alpha = g.attrs().f("alpha", 1);
  const auto product = [&](ValueId x, bool tx, ValueId y, bool ty) {
    return g.op("MatMul", {x, y}, {{"transA", int64_t{tx}}, {"transB", int64_t{ty}}, {"alpha", alpha}});
  };
  // Adds the gradient of B. If the bias's gradient (the column sums of dY) is needed too, one MatMulBiasGrad node
  // computes both. of: an attribute of MatMulBiasGrad, the index of dY among its operands.
  const bool one = g.dims(b).size() == 2 && (g.dims(a).size() == 2 || !ta);
  const bool together = one && g.needs(1) && g.needs(2) && alpha == 1;
  const auto weight = [&](ValueId x, bool tx, ValueId y, bool ty, int64_t of) {
    if (!together) return g.add_grad(1, product(x, tx, y, ty));
    const auto both = g.b.ops("MatMulBiasGrad", {x, y}, {{"transA", int64_t{tx}}, {"transB", int64_t{ty}}, {"of", of}});
    g.add_grad(1, both[0]);
    g.add_grad(2, both[1]);
  };
  if (g.n_in() > 2 && !together) g.add_grad(2, dy);
  if (g.needs(0)) g.add_grad(0, ta ? product(b, tb, dy, true) : product(dy, false, b, !tb));
  if (!g.needs(1)) return;
  const Dims da = g.dims(a), db = g.dims(b);
  if (!ta && db.size() == 2 && da.size() > 2) {
    const int64_t rows = numel(std::span(da).first(da.size() - 1));
    const ValueId x = g.b.reshape(a, {rows, da.back()});
    const Dims dd = g.dims(dy);
    const ValueId d = g.b.reshape(dy, {rows, dd.back()});
    return tb ? weight(d, true, x, false, 0) : weight(x, true, d, false, 1);
  }
  return tb ? weight(dy, true, a, ta, 0) : weight(a, !ta, dy, false, 1);
}

int64_t grain(const MatMulShape& s) { return std::max<int64_t>(1, 1000000 / (2 * s.m * s.n * s.k + 1)); }

// Multiplies in fp64; used as the reference. Operands of other types are converted in the workspace.
Kernel double_matmul(const KernelArgs& args, Carver& carver, bool accumulate) {
  const Operands<double> x(args, carver);
  if (carver.measuring()) return {};
  const MatMulProducts p(args);
  const MatMulShape s = p.shape;
  const std::vector<int64_t> oa = p.offsets(p.da), ob = p.offsets(p.db);
  const int64_t lda = p.da.back(), ldb = p.db.back();
  return [=, ta = p.ta, tb = p.tb, alpha = p.alpha, batch = p.batch] {
    x.load();
    for (int64_t i = 0; i < batch; ++i) {
      const size_t z = static_cast<size_t>(i);
      cpu::parallel_gemm<double>(ta, tb, s.m, s.n, s.k, alpha, x.input(0) + oa[z], lda, x.input(1) + ob[z], ldb,
                                 accumulate ? 1.0 : 0.0, x.output(0) + i * s.m * s.n, s.n, x.input(2));
    }
    x.store();
  };
}

// Returns the product of the first matrices of the batch, for fp32 or 16-bit operands. weight: the second operand if it
// is quantized (not stored in floating point), else null.
cpu::PackedGemm packed_product(const KernelArgs& args, const MatMulProducts& p, const QuantizedMatrix* weight) {
  cpu::PackedGemm g;
  g.m = p.shape.m;
  g.n = p.shape.n;
  g.k = p.shape.k;
  g.alpha = static_cast<float>(p.alpha);
  g.a = {args.in[0].data, args.in[0].dtype, p.da.back(), p.ta};
  g.b = {args.in[1].data, args.in[1].dtype, p.db.back(), p.tb};
  g.c = args.out[0].data;
  g.c_dtype = args.out[0].dtype;
  g.ldc = g.n;
  g.b.quantized = weight;
  if (args.has(2)) {
    g.bias = args.in[2].data;
    g.bias_dtype = args.in[2].dtype;
  }
  return g;
}
Kernel packed_matmul(const KernelArgs& args, Carver& carver, bool accumulate) {
  const MatMulProducts p(args);
  const auto weight = args.deferred ? std::make_shared<QuantizedMatrix>(quantized_matrix(*args.deferred)) : nullptr;
  cpu::PackedGemm g = packed_product(args, p, weight.get());
  g.accumulate = accumulate;
  if (p.batch == 1) return [g, weight, workspace = carver.take<char>(g.workspace())] { g.run(workspace); };
  const std::vector<int64_t> oa = p.offsets(p.da), ob = p.offsets(p.db);
  return [g, weight, oa, ob, batch = p.batch, grain = grain(p.shape)] {
    const auto at = [](const void* base, int64_t elements, DType t) {
      return static_cast<const char*>(base) + elements * size_of(t);
    };
    parallel_ranges(batch, grain, [&](int64_t begin, int64_t end) {
      cpu::PackedGemm one = g;
      for (int64_t i = begin; i < end; ++i) {
        const size_t z = static_cast<size_t>(i);
        one.a.data = at(g.a.data, oa[z], g.a.dtype);
        one.b.data = at(g.b.data, ob[z], g.b.dtype);
        one.c = static_cast<char*>(g.c) + i * g.m * g.n * size_of(g.c_dtype);
        one.run_here();
      }
    });
  };
}

// Multiplies integers by a plain loop; such products are rare (masks, shape arithmetic). Sums wrap around.
Kernel integer_matmul(const KernelArgs& args) {
  const Tensor a = args.in[0], b = args.in[1], c = args.out[0];
  const MatMulProducts p(args);
  if (a.dtype != c.dtype || b.dtype != c.dtype || p.alpha != 1 || args.has(2))
    fail(Exit::unsupported, "E_DTYPE", "MatMul of integers requires two operands of one type, no scale and no bias");
  const std::vector<int64_t> oa = p.offsets(p.da), ob = p.offsets(p.db);
  const int64_t ai = p.ta ? 1 : p.da.back(), ak = p.ta ? p.da.back() : 1;
  const int64_t bk = p.tb ? 1 : p.db.back(), bj = p.tb ? p.db.back() : 1;
  return [=, s = p.shape, batch = p.batch] {
    with_type(c.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        parallel_ranges(batch * s.m, 65536 / (s.n * s.k + 1) + 1, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const auto z = static_cast<size_t>(row / s.m);
            const T *x = a.as<T>() + oa[z] + row % s.m * ai, *y = b.as<T>() + ob[z];
            for (int64_t j = 0; j < s.n; ++j) {
              uint64_t sum = 0;
              for (int64_t q = 0; q < s.k; ++q)
                sum += static_cast<uint64_t>(x[q * ak]) * static_cast<uint64_t>(y[q * bk + j * bj]);
              c.as<T>()[row * s.n + j] = static_cast<T>(sum);
            }
          }
        });
      }
    });
  };
}

template <bool accumulate>
Kernel matmul_kernel(const KernelArgs& a, Carver& carver) {
  if (!is_float(a.in[0].dtype)) return integer_matmul(a);
  if (a.out[0].numel() == 0) return [] {};
  return in_double(a) ? double_matmul(a, carver, accumulate) : packed_matmul(a, carver, accumulate);
}

OpDef matmul_def() {
  OpDef d;
  d.name = "MatMul";
  d.infer = infer_matmul;
  d.gradient = grad_matmul;
  d.reads_deferred = 1;
  d.workspace = measure_workspace<matmul_kernel<false>>;
  return d;
}
const RegisterOp matmul_op{matmul_def()};
const RegisterFlops flops{"MatMul", matmul_flops};
const RegisterKernel matmul_cpu[] = {{DeviceKind::cpu, "MatMul", with_workspace<matmul_kernel<false>>},
                                     {DeviceKind::cpu, "MatMul+=", with_workspace<matmul_kernel<true>>}};

// Multiplies as NumPy's matmul does: a 1-D operand becomes a row or a column, and this dim is dropped from the result.
ValueId numpy_matmul(Lowering& l, ValueId a, ValueId b, Attrs attrs) {
  Builder& g = l.b;
  const bool row = g.rank(a) == 1, column = g.rank(b) == 1;
  if (row) a = g.reshape(a, {1, g.dims(a)[0]});
  if (column) b = g.reshape(b, {g.dims(b)[0], 1});
  ValueId y = g.op("MatMul", {a, b}, std::move(attrs));
  if (row || column) {
    Dims d = g.dims(y);
    if (column) d.pop_back();
    if (row) d.erase(d.end() - (column ? 1 : 2));
    y = g.reshape(y, d);
  }
  return y;
}
// If v is the transpose of a matrix, returns that matrix; otherwise an invalid id. Exporters that do not fold constants
// write such transposes of weights.
ValueId transposed_matrix(const Builder& b, ValueId v) {
  const Value& x = b.value(v);
  if (x.dims.size() != 2 || !x.producer) return {};
  const Node& n = b.graph().node(x.producer);
  return n.op->name == "Transpose" ? n.in[0] : ValueId{};
}
void lower_matmul(Lowering& l) {
  const ValueId weight = transposed_matrix(l.b, l.in(1));
  l.out(0, weight ? numpy_matmul(l, l.in(0), weight, {{"transB", int64_t{1}}}) : numpy_matmul(l, l.in(0), l.in(1), {}));
}
void lower_fused_matmul(Lowering& l) {
  // With transBatch, the axis of the matrix rows is the first one, before the batch dims: the operand is (m, b..., k)
  // instead of (b..., m, k).
  const auto batch_first = [&](size_t i, const char* attribute) {
    if (l.attrs.i(attribute, 0) == 0) return l.in(i);
    const int64_t rank = l.rank(i);
    if (rank < 3) l.unsupported(cat(attribute, " of a tensor of rank ", rank));
    std::vector<int64_t> perm;
    for (int64_t d = 1; d < rank - 1; ++d) perm.push_back(d);
    perm.insert(perm.end(), {0, rank - 1});
    return l.b.transpose(l.in(i), perm);
  };
  l.out(0, numpy_matmul(l, batch_first(0, "transBatchA"), batch_first(1, "transBatchB"),
                        {{"transA", l.attrs.i("transA", 0)},
                         {"transB", l.attrs.i("transB", 0)},
                         {"alpha", l.attrs.f("alpha", 1)}}));
}

// Returns Gemm's result Y = alpha A' B' + beta C.
ValueId gemm(Lowering& l) {
  Builder& b = l.b;
  ValueId y =
      b.op("MatMul", {l.in(0), l.in(1)},
           {{"transA", l.attrs.i("transA", 0)}, {"transB", l.attrs.i("transB", 0)}, {"alpha", l.attrs.f("alpha", 1)}});
  if (l.has(2)) {
    ValueId c = l.in(2);
    const double beta = l.attrs.f("beta", 1);
    if (beta != 1) c = b.op("Mul", {c, b.scalar(beta, b.dtype(c))});
    if (beta != 0) y = b.op("Add", {y, c});
  }
  return y;
}
void lower_gemm(Lowering& l) { l.out(0, gemm(l)); }
void lower_fused_gemm(Lowering& l) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (l.attrs.has(name)) parameters.push_back(l.attrs.f(name, 0));
  }
  l.out(0, fused_activation(l, gemm(l), l.attrs.s("activation", ""), parameters));
}
void lower_gemm_fast_gelu(Lowering& l) {
  ValueId y = numpy_matmul(l, l.in(0), l.in(1), {});
  if (l.has(2)) y = l.b.op("Add", {y, l.in(2)});
  l.out(0, l.b.op("GeluTanh", {y}));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"MatMul", lower_matmul, 1, {}}},
                             RegisterOnnx{{"Gemm", lower_gemm, 7, {}}},
                             RegisterOnnx{{"FusedMatMul", lower_fused_matmul, 1, "com.microsoft"}},
                             RegisterOnnx{{"TransposeMatMul", lower_fused_matmul, 1, "com.microsoft"}},
                             RegisterOnnx{{"FusedGemm", lower_fused_gemm, 1, "com.microsoft"}},
                             RegisterOnnx{{"GemmFastGelu", lower_gemm_fast_gelu, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
