// MatMulBiasGrad (ops/matmul_bias_grad.h): inference and the CPU's kernels. It is made by MatMul's gradient
// (ops/matmul.cc).
#include "ops/matmul_bias_grad.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/operands.h"
#include "backend/cpu/packed_gemm.h"
#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  const Dims &a = c.in(0).dims, &b = c.in(1).dims;
  const MatMulShape s = matmul_shape(a, b, c.attrs);
  const bool of_a = c.attrs.i("of", 1) == 0;
  if (a.size() != 2 || b.size() != 2 || (of_a ? c.attrs.i("transA", 0) == 0 : c.attrs.i("transB", 0) != 0))
    bug("MatMulBiasGrad takes matrices and sums the columns of one as it is stored");
  c.out(c.in(0).dtype, {s.m, s.n});
  c.out(c.in(0).dtype, {of_a ? s.m : s.n});
}

// y (columns) = or += the sums of x (rows, columns) over its rows, in order.
template <class T>
Kernel sum_columns(const Tensor& x, const Tensor& y, int64_t rows, int64_t columns, bool accumulate) {
  constexpr int64_t kBlock = 256;
  return [=] {
    parallel_ranges((columns + kBlock - 1) / kBlock, 32768 / (rows * std::min(columns, kBlock) + 1) + 1,
                    [&](int64_t begin, int64_t end) {
                      alignas(64) T scratch[kBlock], sum[kBlock];
                      for (int64_t block = begin; block < end; ++block) {
                        const int64_t at = block * kBlock, n = std::min(kBlock, columns - at);
                        std::fill(sum, sum + n, T(0));
                        for (int64_t r = 0; r < rows; ++r) {
                          const T* p = elementwise_detail::load<T>(x, r * columns + at, n, scratch);
                          simd([&]() AMP_INLINE {
                            for (int64_t i = 0; i < n; ++i) sum[i] += p[i];
                          });
                        }
                        if (accumulate) {
                          for (int64_t i = 0; i < n; ++i) y.as<T>()[at + i] += sum[i];
                        } else {
                          convert(DTypeOf<T>::value, sum, y.dtype, static_cast<char*>(y.data) + at * size_of(y.dtype),
                                  n);
                        }
                      }
                    });
  };
}

template <bool accumulate>
Kernel prepare(const KernelArgs& args, Carver& carver) {
  const MatMulBiasGradShape q(args);
  const MatMulProducts& p = q.product;
  const auto [m, n, k] = std::tuple(p.shape.m, p.shape.n, p.shape.k);
  const int64_t lda = p.da.back(), ldb = p.db.back();
  if (in_double(args)) {
    const Operands<double> x(args, carver);
    if (carver.measuring()) return {};
    const Kernel sums = sum_columns<double>(args.in[q.of], args.out[1], q.rows, q.columns, accumulate);
    return [=, ta = p.ta, tb = p.tb] {
      x.load();
      cpu::parallel_gemm<double>(ta, tb, m, n, k, 1.0, x.input(0), lda, x.input(1), ldb, accumulate ? 1.0 : 0.0,
                                 x.output(0), n);
      x.store();
      sums();
    };
  }
  cpu::PackedGemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = {args.in[0].data, args.in[0].dtype, lda, p.ta};
  g.b = {args.in[1].data, args.in[1].dtype, ldb, p.tb};
  g.c = args.out[0].data;
  g.c_dtype = args.out[0].dtype;
  g.ldc = n;
  g.accumulate = accumulate;
  char* const workspace = carver.take<char>(g.workspace());
  const Kernel sums = sum_columns<float>(args.in[q.of], args.out[1], q.rows, q.columns, accumulate);
  return [=] {
    g.run(workspace);
    sums();
  };
}

std::vector<ValueId> define(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const size_t of = a.i("of", 1) == 0 ? 0 : 1;
  return {b.op("MatMul", in, {{"transA", a.i("transA", 0)}, {"transB", a.i("transB", 0)}, {"alpha", 1.0}}),
          b.reduce_sum(in[of], {0}, false)};
}

OpDef def() {
  OpDef d;
  d.name = "MatMulBiasGrad";
  d.infer = infer;
  d.definition = define;
  d.min_inputs = 2;
  d.workspace = measure_workspace<prepare<false>>;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel kernels[] = {{DeviceKind::cpu, "MatMulBiasGrad", with_workspace<prepare<false>>},
                                  {DeviceKind::cpu, "MatMulBiasGrad+=", with_workspace<prepare<true>>}};

}  // namespace
}  // namespace amp
