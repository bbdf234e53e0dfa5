// The kernels of MatMulBiasGrad (ops/matmul_bias_grad.h): the gradients of a linear layer's weight and bias. cuBLASLt
// computes the product and the column sums in one launch if it supports the types; its first result is checked
// (library_product.h). If cuBLASLt does not compute the sums, a separate kernel does.
#include "backend/cuda/library_product.h"
#include "backend/cuda/staged.h"
#include "ops/cuda/column_sums.cuh"
#include "ops/matmul_bias_grad.h"

namespace amp::cuda {
namespace {

// Returns a kernel that computes the products of all parts. A part is the gradient of one of the concatenated weights.
// If the addresses of the parts are at a constant distance, all parts are one batched launch. This holds for q, k and v
// if the gradient arena has the model's order of parameters.
Kernel products_of_parts(CudaDevice& d, const MatMulBiasGradShape& q, Gemm g, const Staged& a, const Staged& b,
                         const std::vector<Staged>& c) {
  const auto address = [&](size_t i) { return reinterpret_cast<intptr_t>(c[i].data); };
  const int64_t shift = q.columns / q.parts;
  const intptr_t stride = address(1) - address(0);
  bool regular = stride >= g.m * g.n * size_of(g.out) && stride % size_of(g.out) == 0;
  for (size_t i = 1; i + 1 < c.size(); ++i) regular = regular && address(i + 1) - address(i) == stride;
  (q.of == 0 ? g.lda : g.ldb) = q.columns;
  (q.of == 0 ? g.stride_a : g.stride_b) = shift;
  if (regular) {
    g.batch = q.parts;
    g.stride_c = stride / size_of(g.out);
    return [product = d.gemm(g), a, b, to = c[0].data] { product(a.data, b.data, to); };
  }
  const auto at = [&](const Staged& x, bool cut, size_t i) {
    return static_cast<const char*>(x.data) + (cut ? static_cast<int64_t>(i) * shift * size_of(g.in) : 0);
  };
  std::vector<Kernel> all;
  for (size_t i = 0; i < c.size(); ++i) {
    all.push_back(
        [product = d.gemm(g), x = at(a, q.of == 0, i), y = at(b, q.of == 1, i), to = c[i].data] { product(x, y, to); });
  }
  return [all] {
    for (const Kernel& one : all) one();
  };
}

template <bool accumulate>
Kernel prepare_parts(const KernelArgs& args, Carver& carver, const MatMulBiasGradShape& q) {
  const MatMulProducts& p = q.product;
  const DType in = common_type(args.in[0], args.in[1]);
  const auto n_parts = static_cast<size_t>(q.parts);
  const bool same =
      std::all_of(args.out.begin(), args.out.begin() + q.parts, [in](const Tensor& t) { return t.dtype == in; });
  const DType out = same ? in : DType::f32;
  check(!accumulate ||
            std::all_of(args.out.begin(), args.out.end(), [](const Tensor& t) { return t.dtype == DType::f32; }),
        "gradients are added up in fp32");
  const Staged a = Staged::input(args, carver, args.in[0], in), b = Staged::input(args, carver, args.in[1], in);
  std::vector<Staged> c;
  for (size_t i = 0; i < n_parts; ++i) c.push_back(Staged::output(args, carver, args.out[i], out));
  const Kernel sums = sum_columns(args, carver, args.in[q.of], {args.out.begin() + q.parts, args.out.end()}, q.rows,
                                  q.columns, accumulate);
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(args);
  Gemm g{q.m(), q.n(), p.shape.k, 1, p.ta, p.tb};
  g.in = in;
  g.out = out;
  g.beta = accumulate ? 1 : 0;
  Kernel multiply = [] {};
  if (g.m > 0 && g.n > 0 && g.k > 0) {
    multiply = products_of_parts(d, q, g, a, b, c);
  } else if (!accumulate) {
    multiply = [&d, c, bytes = g.m * g.n * size_of(out)] {
      for (const Staged& part : c) d.fill(part.data, 0, bytes);
    };
  }
  return [=] {
    a.move();
    b.move();
    multiply();
    sums();
    for (const Staged& part : c) part.move();
  };
}

template <bool accumulate>
Kernel prepare(const KernelArgs& args, Carver& carver) {
  const MatMulBiasGradShape q(args);
  if (in_double(args)) no_fp64(args);
  if (q.parts > 1) return prepare_parts<accumulate>(args, carver, q);
  const MatMulProducts& p = q.product;
  const DType in = common_type(args.in[0], args.in[1]);
  if (in == DType::f64) no_fp64(args);
  check(!accumulate || (args.out[0].dtype == DType::f32 && args.out[1].dtype == DType::f32),
        "gradients are added up in fp32");
  const DType out = args.out[0].dtype == in ? in : DType::f32;
  const Staged a = Staged::input(args, carver, args.in[0], in), b = Staged::input(args, carver, args.in[1], in);
  const Staged c = Staged::output(args, carver, args.out[0], out);
  const Tensor& summed = args.in[q.of];
  // The library writes fp32 sums. It writes them to the output if the output is fp32 and not accumulated, otherwise to
  // workspace. The workspace is reserved in both cases.
  const bool in_place = !accumulate && args.out[1].dtype == DType::f32;
  float* const apart_sums = carver.take<float>(q.columns);
  const Tensor sums = in_place ? args.out[1] : Tensor{apart_sums, DType::f32, {q.columns}};
  const Kernel own_sums = sum_columns(args, carver, summed, args.out[1], q.rows, q.columns, accumulate);
  const Kernel plain_sums = sum_columns(args, carver, summed, sums, q.rows, q.columns, false);
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(args);
  Gemm g{p.shape.m, p.shape.n, p.shape.k, 1, p.ta, p.tb};
  g.in = in;
  g.out = out;
  g.beta = accumulate ? 1 : 0;
  const bool some = g.m > 0 && g.n > 0 && g.k > 0;
  const auto product = some ? d.gemm(g) : nullptr;
  const Kernel multiply = [=, &d, bytes = args.out[0].numel() * size_of(out)] {
    if (product)
      product(a.data, b.data, c.data);
    else if (!accumulate)
      d.fill(c.data, 0, bytes);
  };
  const EpilogueProduct fused{g, q.of == 0 ? Epilogue::sums_a : Epilogue::sums_b};
  const auto library = some && out == DType::f32 ? d.product(fused) : nullptr;
  if (!library) {
    return [=] {
      a.move();
      b.move();
      multiply();
      own_sums();
      c.move();
    };
  }
  const Kernel store = in_place ? Kernel([] {}) : accumulate ? d.add(args.out[1], sums) : d.convert(sums, args.out[1]);
  const auto guard = std::make_shared<GuardedProduct>(d, fused, library);
  const Kernel apart = [=] {
    multiply();
    plain_sums();
  };
  return [=] {
    a.move();
    b.move();
    guard->run(a.data, b.data, c.data, sums.data, apart);
    store();
    c.move();
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "MatMulBiasGrad", with_workspace<prepare<false>>, measure_workspace<prepare<false>>},
    {DeviceKind::cuda, "MatMulBiasGrad+=", with_workspace<prepare<true>>}};

}  // namespace
}  // namespace amp::cuda
