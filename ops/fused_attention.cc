// The operators FusedAttention and FusedAttentionGrad (ops/fused_attention.h): shape inference, gradient, and the
// choice of the CPU kernel.
#include "ops/fused_attention.h"

#include "backend/node_work.h"
#include "ops/attention_heads.h"
#include "ops/composed/attention_decomposition.h"
#include "ops/elementwise_op.h"

namespace amp {

namespace {

void infer_attention(InferCtx& c) {
  const auto dims = [&](size_t i) { return i < c.n_in() && c.inputs[i] ? c.in(i).dims : Dims{}; };
  const AttentionForm f = attention_form(c.attrs, c.in(0).dims, dims(1), dims(2), dims(3), dims(4));
  const DType t = c.in(0).dtype;
  if (f.heads_first)
    c.out(t, {f.batch, f.heads, f.queries, f.value_width});
  else
    c.out(t, {f.batch, f.queries, f.heads, f.value_width});
  for (int i = 0; i < 2; ++i) c.out(t == DType::f64 ? DType::f64 : DType::f32, {f.batch, f.heads, f.queries});
}
void infer_attention_grad(InferCtx& c) {
  const size_t n = c.attrs.i("packed", 0) != 0 ? 1 : 3;
  for (size_t i = 0; i < n; ++i) c.out(c.in(i).dtype, c.in(i).dims);
}

void grad_attention(GradBuilder& g) {
  if (g.n_in() > 3 && g.in(3) && g.needs(3))
    fail(Exit::unsupported, "E_GRADIENT", "fused attention has no gradient of its mask");
  const auto in = [&](size_t i) { return i < g.n_in() ? g.in(i) : ValueId{}; };
  const std::vector<ValueId> d = g.b.ops(
      "FusedAttentionGrad", {in(0), in(1), in(2), in(3), in(4), g.out(0), g.out(1), g.dy(0), g.out(2)}, g.attrs());
  for (size_t i = 0; i < d.size(); ++i) {
    if (g.needs(i)) g.add_grad(i, d[i]);
  }
}

Kernel prepare(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) return attention_detail::attention_fp64(a, carver);
  return carver.measuring() ? Kernel{} : attention_detail::attention_tiles(a);
}
Kernel prepare_grad(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) return attention_detail::attention_grad_fp64(a, carver);
  return carver.measuring() ? Kernel{} : attention_detail::attention_grad_tiles(a);
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient,
          int64_t (*workspace)(const Graph&, const Node&), Decomposition decomposition = nullptr) {
  OpDef d;
  d.decomposition = decomposition;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.workspace = workspace;
  return d;
}
const RegisterOp ops_[] = {
    RegisterOp{def("FusedAttention", infer_attention, grad_attention, measure_workspace<prepare>)},
    RegisterOp{def("FusedAttentionGrad", infer_attention_grad, nullptr, measure_workspace<prepare_grad>,
                   decompose_attention_grad)}};
// Returns the FLOPs of `products` matrix products: two in forward, five in backward, where scores are recomputed (Dao
// et al., FlashAttention, 2022).
double flops(const KernelArgs& a, double products) {
  const bool packed = a.attrs().i("packed", 0) != 0, heads_first = a.attrs().i("heads_first", 0) != 0;
  const double q = static_cast<double>(a.in[0].numel()) / (packed ? 3 : 1);
  const Tensor& k = packed ? a.in[0] : a.in[1];
  int64_t keys = k.dims.at(heads_first ? 2 : 1);
  if (a.has(4)) keys = std::min(keys, std::max<int64_t>(1, a.attrs().i("max_len", keys)));
  return 2 * products * q * static_cast<double>(keys);
}
const RegisterFlops flops_[] = {{"FusedAttention", [](const KernelArgs& a) { return flops(a, 2); }},
                                {"FusedAttentionGrad", [](const KernelArgs& a) { return flops(a, 5); }}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "FusedAttention", with_workspace<prepare>},
                                   {DeviceKind::cpu, "FusedAttentionGrad", with_workspace<prepare_grad>}};

}  // namespace
}  // namespace amp
