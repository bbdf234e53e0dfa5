// Attention with rows that have no visible key, or with scores far from 0: gradients of the fused kernels and of the
// unfused operators against plain loops in fp64 (op_masked_attention.h).
#include <catch2/catch_all.hpp>

#include "backend/interpreter.h"
#include "graph/autodiff.h"
#include "graph/op.h"
#include "tests/ops/op_masked_attention.h"

using namespace amp;
using namespace amp::test;

namespace {

using Gradients = std::vector<HostTensor>;  // in this order: y, dq, dk, dv

Gradients fused(const AttentionOperandSet& o, DType t) {
  const DType stat = t == DType::f64 ? t : DType::f32;
  const auto wide = [&](const HostTensor& m) { return !m || m.dtype() == DType::boolean ? m : m.cast(stat); };
  std::vector<HostTensor> in{o.q.cast(t), o.k.cast(t), o.v.cast(t), wide(o.mask)};
  const Dims q = o.q.dims(), row{q[0], q[2], q[1]};
  const auto y = evaluate_node(core_op("FusedAttention"), in, o.attrs, {{t, q}, {stat, row}, {stat, row}});
  in.insert(in.end(), {HostTensor(), y[0], y[1], o.dy.cast(t), y[2]});
  Gradients out = evaluate_node(core_op("FusedAttentionGrad"), in, o.attrs, {{t, q}, {t, o.k.dims()}, {t, o.v.dims()}});
  out.insert(out.begin(), y[0]);
  return out;
}

Gradients unfused(const AttentionOperandSet& o, DType t) {
  Graph g;
  Builder b(g, cpu_evaluator());
  std::vector<ValueId> leaves;
  for (const HostTensor* x : {&o.q, &o.k, &o.v})
    leaves.push_back(g.add_param(static_cast<int>(leaves.size()), "x", t, x->dims()));
  const auto heads = [&](size_t i, const std::vector<int64_t>& perm) { return b.transpose(leaves[i], perm); };
  ValueId z = b.op("MatMul", {heads(0, {0, 2, 1, 3}), heads(1, {0, 2, 3, 1})}, {{"alpha", o.attrs.f("scale", 1)}});
  std::map<std::string, HostTensor> feeds{{"dy", o.dy.cast(t)}};
  if (o.mask) {
    feeds["mask"] = o.mask.dtype() == DType::boolean ? o.mask : o.mask.cast(t);
    const ValueId mask = g.add_input("mask", feeds["mask"].dtype(), o.mask.dims());
    z = o.mask.dtype() == DType::boolean ? b.op("Where", {mask, z, b.scalar(o.attrs.f("fill", 0), t)})
                                         : b.op("Add", {z, mask});
  }
  const ValueId p = b.op("Softmax", {z}, {{"empty_rows_zero", o.attrs.i("empty_rows_zero", 0)}});
  const ValueId y = b.transpose(b.op("MatMul", {p, heads(2, {0, 2, 1, 3})}), {0, 2, 1, 3});
  g.outputs = {{"y", y}};
  Autodiff ad(b, leaves);
  ad.seed(y, g.add_input("dy", t, o.dy.dims()));
  ad.run();
  for (const ValueId x : leaves) g.param_grads.push_back({g.value(x).slot, ad.grad(x)});
  const Interpreted r = interpret(g, feeds, {o.q.cast(t), o.k.cast(t), o.v.cast(t)});
  return {r.outputs.at("y"), r.param_grads.at(0), r.param_grads.at(1), r.param_grads.at(2)};
}

void compare(const Gradients& got, const AttentionGradients& want, double tolerance) {
  const std::vector<const std::vector<double>*> all{&want.y, &want.dq, &want.dk, &want.dv};
  const char* const names[] = {"y", "dq", "dk", "dv"};
  for (size_t i = 0; i < all.size(); ++i) {
    INFO(names[i]);
    CHECK(relative_error(got.at(i), *all[i]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("gradients of attention whose rows see no key are those of its softmax", "[attention]") {
  size_t cases = 0;
  for (const MaskedAttention& m : masked_attentions()) {
    const AttentionOperandSet o = operands_of(m);
    for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const bool fits = t != DType::f16 || m.size == 1;
      if (!fits) continue;
      INFO(m.name << (m.every_row ? ", every row" : "") << " in " << name_of(t));
      const AttentionGradients want = gradients_of(m, o, t == DType::f64);
      compare(fused(o, t), want, storage_tolerance(t));
      ++cases;
      if (is_low(t)) continue;  // the precision plan keeps an unfused softmax in fp32
      compare(unfused(o, t), want, storage_tolerance(t));
      ++cases;
    }
  }
  CHECK(cases >= 60);
}
