// The kernels of MatMulGelu and MatMulGeluGrad (ops/matmul_gelu.h): one launch of cuBLASLt if it supports the operands;
// otherwise the kernels of MatMul and of GeluTanh.
#include "backend/cuda/library_product.h"
#include "ops/inner_node.h"
#include "ops/matmul.h"
#include "ops/matmul_gelu.h"

namespace amp::cuda {
namespace {

// Returns the product that cuBLASLt computes; null if cuBLASLt cannot read and write the tensors in their storage
// types.
std::shared_ptr<GuardedProduct> library_product(const KernelArgs& a, const Tensor& result, const Tensor& extra,
                                                const Tensor& bias, Epilogue epilogue) {
  const MatMulProducts p(a);
  const DType t = a.in[0].dtype;
  const bool one_type = a.in[1].dtype == t && result.dtype == t && extra.dtype == t && (!bias.data || bias.dtype == t);
  if (p.batch != 1 || !one_type || t == DType::f64 || p.shape.k == 0) return nullptr;
  Gemm g{p.shape.m, p.shape.n, p.shape.k, 1, p.ta, p.tb};
  g.in = g.out = t;
  g.alpha = p.alpha;
  g.bias = bias.data;
  const EpilogueProduct what{g, epilogue};
  const auto library = device_of(a).product(what);
  return library ? std::make_shared<GuardedProduct>(device_of(a), what, library) : nullptr;
}

Kernel guarded(const KernelArgs& a, const std::shared_ptr<GuardedProduct>& library, const Tensor& result,
               const Tensor& extra, const Kernel& own) {
  if (!library) return own;
  return [=, x = a.in[0].data, y = a.in[1].data] { library->run(x, y, result.data, extra.data, own); };
}

Kernel forward(const KernelArgs& a, Carver& carver) {
  std::vector<Tensor> in{a.in[0], a.in[1]};
  if (a.in.size() > 2) in.push_back(a.in[2]);
  const Kernel product = inner_node(a, carver, DeviceKind::cuda, "MatMul", a.attrs(), in, {a.out[1]});
  const Kernel gelu = inner_node(a, carver, DeviceKind::cuda, "GeluTanh", {}, {a.out[1]}, {a.out[0]});
  if (carver.measuring()) return {};
  if (a.out[0].numel() == 0) return [] {};
  const Kernel own = [=] {
    product();
    gelu();
  };
  const auto library = library_product(a, a.out[0], a.out[1], a.in.size() > 2 ? a.in[2] : Tensor{}, Epilogue::gelu);
  return guarded(a, library, a.out[0], a.out[1], own);
}

Kernel backward(const KernelArgs& a, Carver& carver) {
  const auto type = static_cast<DType>(a.attrs().i("product", static_cast<int64_t>(a.out[0].dtype)));
  const Tensor between{carver.take<char>(a.out[0].numel() * size_of(type)), type, a.out[0].dims};
  const Kernel product = inner_node(a, carver, DeviceKind::cuda, "MatMul", a.attrs(), {a.in[0], a.in[1]}, {between});
  const Kernel gelu = inner_node(a, carver, DeviceKind::cuda, "GeluTanhGrad", {}, {a.in[2], between}, {a.out[0]});
  if (carver.measuring()) return {};
  if (a.out[0].numel() == 0) return [] {};
  const Kernel own = [=] {
    product();
    gelu();
  };
  // Omits input 2, which is p and not a bias.
  KernelArgs two{a.node, {a.in[0], a.in[1]}, a.out, a.workspace, a.state, a.device};
  const auto library = library_product(two, a.out[0], a.in[2], {}, Epilogue::gelu_gradient);
  return guarded(a, library, a.out[0], a.in[2], own);
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "MatMulGelu", with_workspace<forward>, measure_workspace<forward>},
    {DeviceKind::cuda, "MatMulGeluGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
