// MatMulBiasGrad (ops/matmul_bias_grad.h): inference and the CPU's kernels. It is made by MatMul's gradient
// (ops/matmul.cc).
#include "ops/matmul_bias_grad.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/operands.h"
#include "backend/cpu/packed_gemm.h"
#include "backend/node_work.h"
#include "backend/rows.h"
#include "ops/compose.h"
#include "ops/elementwise_op.h"

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

// y (columns) = or += the sums of x (rows, columns, `pitch` from row to row) over its rows, in order.
template <class T>
Kernel sum_columns(const Tensor& x, int64_t first, int64_t pitch, const Tensor& y, int64_t rows, bool accumulate) {
  constexpr int64_t kBlock = 256;
  return [=, columns = y.numel()] {
    parallel_ranges((columns + kBlock - 1) / kBlock, 32768 / (rows * std::min(columns, kBlock) + 1) + 1,
                    [&](int64_t begin, int64_t end) {
                      alignas(64) T scratch[kBlock], sum[kBlock];
                      for (int64_t block = begin; block < end; ++block) {
                        const int64_t at = block * kBlock, n = std::min(kBlock, columns - at);
                        std::fill(sum, sum + n, T(0));
                        for (int64_t r = 0; r < rows; ++r) {
                          const T* p = elementwise_detail::load<T>(x, r * pitch + first + at, n, scratch);
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

template <class T>
Kernel all_sums(const KernelArgs& args, const MatMulBiasGradShape& q, bool accumulate) {
  std::vector<Kernel> parts;
  for (int64_t i = 0; i < q.parts; ++i) {
    const int64_t columns = q.columns / q.parts;
    parts.push_back(sum_columns<T>(args.in[q.of], i * columns, q.columns, args.out[static_cast<size_t>(q.parts + i)],
                                   q.rows, accumulate));
  }
  return [parts] {
    for (const Kernel& sums : parts) sums();
  };
}

template <bool accumulate>
Kernel in_double_precision(const KernelArgs& args, const MatMulBiasGradShape& q, const Operands<double>& x) {
  const MatMulProducts& p = q.product;
  return [=, m = q.m(), n = q.n(), k = p.shape.k, lda = p.da.back(), ldb = p.db.back(), ta = p.ta, tb = p.tb,
          sums = all_sums<double>(args, q, accumulate)] {
    x.load();
    for (int64_t i = 0; i < q.parts; ++i) {
      const int64_t shift = i * (q.columns / q.parts);
      cpu::parallel_gemm<double>(ta, tb, m, n, k, 1.0, x.input(0) + (q.of == 0 ? shift : 0), lda,
                                 x.input(1) + (q.of == 1 ? shift : 0), ldb, accumulate ? 1.0 : 0.0,
                                 x.output(static_cast<size_t>(i)), n);
    }
    x.store();
    sums();
  };
}

template <bool accumulate>
Kernel prepare(const KernelArgs& args, Carver& carver) {
  const MatMulBiasGradShape q(args);
  const MatMulProducts& p = q.product;
  if (in_double(args)) {
    const Operands<double> x(args, carver);
    return carver.measuring() ? Kernel{} : in_double_precision<accumulate>(args, q, x);
  }
  std::vector<cpu::PackedGemm> products;
  int64_t bytes = 0;
  for (int64_t i = 0; i < q.parts; ++i) {
    const Tensor& c = args.out[static_cast<size_t>(i)];
    cpu::PackedGemm g;
    g.m = q.m();
    g.n = q.n();
    g.k = p.shape.k;
    g.a = {args.in[0].data, args.in[0].dtype, p.da.back(), p.ta};
    g.b = {args.in[1].data, args.in[1].dtype, p.db.back(), p.tb};
    cpu::PackedGemm::Operand& cut = q.of == 0 ? g.a : g.b;
    cut.data = static_cast<const char*>(cut.data) + i * (q.columns / q.parts) * size_of(cut.dtype);
    g.c = c.data;
    g.c_dtype = c.dtype;
    g.ldc = g.n;
    g.accumulate = accumulate;
    bytes = std::max(bytes, g.workspace());
    products.push_back(g);
  }
  char* const workspace = carver.take<char>(bytes);
  if (carver.measuring()) return {};
  return [=, sums = all_sums<float>(args, q, accumulate)] {
    for (const cpu::PackedGemm& g : products) g.run(workspace);
    sums();
  };
}

std::vector<ValueId> define(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
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
  d.definition = define;
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
