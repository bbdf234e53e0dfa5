// MatMulBiasGrad (ops/matmul_bias_grad.h): shape inference, CPU kernels. MatMul's gradient (ops/matmul.cc) creates it.
// The column sums are computed while the operand is packed for the product.
#include "ops/matmul_bias_grad.h"

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/packed_gemm.h"
#include "backend/cpu/operands.h"
#include "backend/node_work.h"
#include "ops/compose.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  const Dims &a = c.in(0).dims, &b = c.in(1).dims;
  const MatMulShape s = matmul_shape(a, b, c.attrs);
  const bool of_a = c.attrs.i("of", 1) == 0;
  if (a.size() != 2 || b.size() != 2 || (of_a ? c.attrs.i("transA", 0) == 0 : c.attrs.i("transB", 0) != 0))
    bug("MatMulBiasGrad takes matrices and sums the columns of one as it is stored");
  const int64_t parts = c.attrs.i("parts", 1), columns = of_a ? s.m : s.n;
  if (parts < 1 || columns % parts != 0) bug("MatMulBiasGrad: parts of different sizes");
  for (int64_t i = 0; i < parts; ++i) c.out(c.in(0).dtype, {of_a ? s.m / parts : s.m, of_a ? s.n : s.n / parts});
  for (int64_t i = 0; i < parts; ++i) c.out(c.in(0).dtype, {columns / parts});
}

// Stores the sums of each part in the part's tensor, or adds them to it. `sums` has the parts one after the other.
template <class T, bool accumulate>
void store_sums(const T* sums, const std::vector<Tensor>& to) {
  for (const Tensor& y : to) {
    const int64_t n = y.numel();
    if constexpr (accumulate) {
      for (int64_t i = 0; i < n; ++i) y.as<T>()[i] += sums[i];
    } else {
      convert(DTypeOf<T>::value, sums, y.dtype, y.data, n);
    }
    sums += n;
  }
}
std::vector<Tensor> sum_outputs(const KernelArgs& args, const MatMulBiasGradShape& q) {
  return {args.out.begin() + q.parts, args.out.end()};
}

template <bool accumulate>
Kernel in_double_precision(const KernelArgs& args, const MatMulBiasGradShape& q, const Operands<double>& x,
                           double* sums) {
  const MatMulProducts& p = q.product;
  return [=, m = q.m(), n = q.n(), k = p.shape.k, lda = p.da.back(), ldb = p.db.back(), ta = p.ta, tb = p.tb,
          to = sum_outputs(args, q)] {
    x.load();
    for (int64_t i = 0; i < q.parts; ++i) {
      const int64_t shift = i * (q.columns / q.parts);
      cpu::parallel_gemm<double>(ta, tb, m, n, k, 1.0, x.input(0) + (q.of == 0 ? shift : 0), lda,
                                 x.input(1) + (q.of == 1 ? shift : 0), ldb, accumulate ? 1.0 : 0.0,
                                 x.output(static_cast<size_t>(i)), n);
    }
    x.store();
    std::fill_n(sums, q.columns, 0.0);
    for (int64_t r = 0; r < q.rows; ++r) {
      const double* const row = x.input(q.of) + r * q.columns;
      for (int64_t c = 0; c < q.columns; ++c) sums[c] += row[c];
    }
    store_sums<double, accumulate>(sums, to);
  };
}

template <bool accumulate>
Kernel prepare(const KernelArgs& args, Carver& carver) {
  const MatMulBiasGradShape q(args);
  const MatMulProducts& p = q.product;
  if (in_double(args)) {
    const Operands<double> x(args, carver);
    double* const sums = carver.take<double>(q.columns);
    return carver.measuring() ? Kernel{} : in_double_precision<accumulate>(args, q, x, sums);
  }
  float* const sums = carver.take<float>(q.columns);
  std::vector<cpu::PackedGemm> products;
  int64_t bytes = 0;
  for (int64_t i = 0; i < q.parts; ++i) {
    const Tensor& c = args.out[static_cast<size_t>(i)];
    const int64_t first = i * (q.columns / q.parts);
    cpu::PackedGemm g;
    g.m = q.m();
    g.n = q.n();
    g.k = p.shape.k;
    g.a = {args.in[0].data, args.in[0].dtype, p.da.back(), p.ta};
    g.b = {args.in[1].data, args.in[1].dtype, p.db.back(), p.tb};
    cpu::PackedGemm::Operand& cut = q.of == 0 ? g.a : g.b;
    cut.data = static_cast<const char*>(cut.data) + first * size_of(cut.dtype);
    (q.of == 0 ? g.a_sums : g.b_sums) = sums + first;
    g.c = c.data;
    g.c_dtype = c.dtype;
    g.ldc = g.n;
    g.accumulate = accumulate;
    bytes = std::max(bytes, g.workspace());
    products.push_back(g);
  }
  char* const workspace = carver.take<char>(bytes);
  if (carver.measuring()) return {};
  return [=, to = sum_outputs(args, q)] {
    for (const cpu::PackedGemm& g : products) g.run(workspace);
    store_sums<float, accumulate>(sums, to);
  };
}

std::vector<ValueId> decompose(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const size_t of = a.i("of", 1) == 0 ? 0 : 1;
  const int64_t parts = a.i("parts", 1), width = b.dims(in[of]).back() / parts;
  std::vector<ValueId> c, sums;
  for (int64_t i = 0; i < parts; ++i) {
    std::vector<ValueId> x = in;
    if (parts > 1) x[of] = slice(b, in[of], 1, i * width, width);
    c.push_back(b.op("MatMul", x, {{"transA", a.i("transA", 0)}, {"transB", a.i("transB", 0)}, {"alpha", 1.0}}));
    sums.push_back(b.reduce_sum(x[of], {0}, false));
  }
  c.insert(c.end(), sums.begin(), sums.end());
  return c;
}

OpDef def() {
  OpDef d;
  d.name = "MatMulBiasGrad";
  d.infer = infer;
  d.decomposition = decompose;
  d.min_inputs = 2;
  d.workspace = measure_workspace<prepare<false>>;
  return d;
}
const RegisterOp op{def()};
const RegisterFlops flops{"MatMulBiasGrad", matmul_flops};
const RegisterKernel kernels[] = {{DeviceKind::cpu, "MatMulBiasGrad", with_workspace<prepare<false>>},
                                  {DeviceKind::cpu, "MatMulBiasGrad+=", with_workspace<prepare<true>>}};

}  // namespace
}  // namespace amp
