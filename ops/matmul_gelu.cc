// MatMulGelu and MatMulGeluGrad (ops/matmul_gelu.h): shape inference, CPU kernels that call those of MatMul and GELU,
// and the pass that forms these operators.

#include "ops/matmul_gelu.h"

#include <map>

#include "backend/node_work.h"
#include "graph/copier.h"
#include "graph/passes.h"
#include "ops/inner_node.h"
#include "ops/matmul.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  MatMulShape s = matmul_shape(c.in(0).dims, c.in(1).dims, c.attrs);
  s.batch.insert(s.batch.end(), {s.m, s.n});
  c.out(c.in(0).dtype, s.batch);
  c.out(c.in(0).dtype, s.batch);
}
void infer_grad(InferCtx& c) { c.out(c.in(2).dtype, c.in(2).dims); }

Kernel forward(const KernelArgs& a, Carver& carver) {
  std::vector<Tensor> in{a.in[0], a.in[1]};
  if (a.in.size() > 2) in.push_back(a.in[2]);
  const Kernel product = inner_node(a, carver, DeviceKind::cpu, "MatMul", a.attrs(), in, {a.out[1]});
  const Kernel gelu = inner_node(a, carver, DeviceKind::cpu, "GeluTanh", {}, {a.out[1]}, {a.out[0]});
  return [=] {
    product();
    gelu();
  };
}

Kernel backward(const KernelArgs& a, Carver& carver) {
  const auto type = static_cast<DType>(a.attrs().i("product", static_cast<int64_t>(a.out[0].dtype)));
  const Tensor between{carver.take<char>(a.out[0].numel() * size_of(type)), type, a.out[0].dims};
  const Kernel product = inner_node(a, carver, DeviceKind::cpu, "MatMul", a.attrs(), {a.in[0], a.in[1]}, {between});
  const Kernel gelu = inner_node(a, carver, DeviceKind::cpu, "GeluTanhGrad", {}, {a.in[2], between}, {a.out[0]});
  return [=] {
    product();
    gelu();
  };
}

OpDef def(const char* name, void (*infer)(InferCtx&), size_t inputs, int64_t (*workspace)(const Graph&, const Node&)) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.min_inputs = inputs;
  d.workspace = workspace;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("MatMulGelu", infer, 2, measure_workspace<forward>)},
                           RegisterOp{def("MatMulGeluGrad", infer_grad, 3, measure_workspace<backward>)}};
const RegisterFlops flops_[] = {{"MatMulGelu", matmul_flops}, {"MatMulGeluGrad", matmul_flops}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "MatMulGelu", with_workspace<forward>},
                                   {DeviceKind::cpu, "MatMulGeluGrad", with_workspace<backward>}};

struct Merged {
  const Node* first = nullptr;   // node of the product
  const Node* second = nullptr;  // node of GELU, or of its gradient
};

}  // namespace

Graph fuse_gelu(const Graph& g) {
  std::vector<int> uses(static_cast<size_t>(g.n_values()), 0);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    for (const ValueId v : g.node(NodeId{n}).in) uses[v ? static_cast<size_t>(v.index) : 0] += v ? 1 : 0;
  }
  for (const auto& o : g.outputs) uses[static_cast<size_t>(o.value.index)] += 2;
  for (const auto& p : g.param_grads) uses[static_cast<size_t>(p.value.index)] += 2;
  const auto product_of = [&](ValueId v) -> int32_t {
    if (g.value(v).kind != ValueKind::temp || g.node(g.value(v).producer).op->name != "MatMul") return -1;
    return g.value(v).producer.index;
  };
  std::map<int32_t, Merged> at;  // index of the old node that is replaced -> the new node
  std::vector<bool> gone(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    const bool back = node.op->name == "GeluTanhGrad";
    if (!back && node.op->name != "GeluTanh") continue;
    const ValueId x = node.in[back ? 1 : 0];
    const int32_t product = product_of(x);
    if (product < 0 || gone[static_cast<size_t>(product)] || g.value(x).dims != g.value(node.out[0]).dims) continue;
    const bool bias = g.node(NodeId{product}).in.size() > 2;
    if (back && (bias || uses[static_cast<size_t>(x.index)] != 1 || g.value(node.in[0]).dims != g.value(x).dims))
      continue;
    gone[static_cast<size_t>(product)] = gone[static_cast<size_t>(n)] = true;
    at[back ? n : product] = {&g.node(NodeId{product}), &node};
  }
  if (at.empty()) return g;
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const auto merged = at.find(n);
    if (merged == at.end()) {
      if (!gone[static_cast<size_t>(n)]) copy.node(NodeId{n}, types_of(g, g.node(NodeId{n}).out));
      continue;
    }
    const auto [product, gelu] = merged->second;
    const bool back = gelu->op->name == "GeluTanhGrad";
    Node like = *product;
    like.origin = gelu->origin;
    like.op = &core_op(back ? "MatMulGeluGrad" : "MatMulGelu");
    std::vector<ValueId> in = product->in;
    if (back) {
      in.push_back(gelu->in[0]);
      like.attrs.set("product", static_cast<int64_t>(g.value(product->out[0]).dtype));
    }
    const std::vector<ValueId> was = back ? gelu->out : std::vector{gelu->out[0], product->out[0]};
    copy.add(like, in, was, types_of(g, was));
  }
  copy.finish();
  return prune(copy.out);
}

}  // namespace amp
