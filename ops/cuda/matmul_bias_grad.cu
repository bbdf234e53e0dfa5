// MatMulBiasGrad (ops/matmul_bias_grad.h): product and sums in one launch of the library where it can, else one after
// the other.
#include "backend/cuda/library_product.h"
#include "backend/cuda/staged.h"
#include "ops/cuda/column_sums.cuh"
#include "ops/matmul_bias_grad.h"

namespace amp::cuda {
namespace {

template <bool accumulate>
Kernel prepare(const KernelArgs& args, Carver& carver) {
  const MatMulBiasGradShape q(args);
  const MatMulProducts& p = q.product;
  const DType in = common_type(args.in[0], args.in[1]);
  if (in_double(args) || in == DType::f64) no_fp64(args);
  check(!accumulate || (args.out[0].dtype == DType::f32 && args.out[1].dtype == DType::f32),
        "gradients are added up in fp32");
  const DType out = args.out[0].dtype == in ? in : DType::f32;
  const Staged a = Staged::input(args, carver, args.in[0], in), b = Staged::input(args, carver, args.in[1], in);
  const Staged c = Staged::output(args, carver, args.out[0], out);
  const Tensor& summed = args.in[q.of];
  const Tensor sums{carver.take<float>(q.columns), DType::f32, {q.columns}};  // what the library's launch leaves
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
  const Kernel store = accumulate ? d.add(args.out[1], sums) : d.convert(sums, args.out[1]);
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
