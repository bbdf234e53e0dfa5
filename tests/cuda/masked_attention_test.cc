// Attention with rows that have no visible key, or with scores far from 0, on the emulated device against plain loops
// in fp64 (tests/ops/op_masked_attention.h).
#include <catch2/catch_all.hpp>

#include "graph/op.h"
#include "tests/cuda/against_cpu.h"
#include "tests/ops/op_masked_attention.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("gradients of attention whose rows see no key are those of its softmax on CUDA", "[cuda][attention]") {
  for (const MaskedAttention& m : masked_attentions()) {
    const AttentionOperandSet o = operands_of(m);
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      if (t == DType::f16 && m.size != 1) continue;  // scores exceed fp16's range
      INFO(m.name << (m.every_row ? ", every row" : "") << " in " << name_of(t));
      Graph g;
      std::vector<ValueId> ids;
      std::vector<HostTensor> in;
      const auto add = [&](const HostTensor& x) {
        in.push_back(x);
        ids.push_back(x ? g.add_input("x", x.dtype(), x.dims()) : ValueId{});
      };
      for (const HostTensor* x : {&o.q, &o.k, &o.v}) add(x->cast(t));
      add(!o.mask || o.mask.dtype() == DType::boolean ? o.mask : o.mask.cast(DType::f32));
      const Node forward = g.node(g.add_node(core_op("FusedAttention"), ids, o.attrs, {}));
      const std::vector<HostTensor> y = run_on_device(g, forward, in);
      for (const HostTensor& x : {HostTensor(), y[0], y[1], o.dy.cast(t), y[2]}) add(x);
      const Node backward = g.node(g.add_node(core_op("FusedAttentionGrad"), ids, o.attrs, {}));
      const std::vector<HostTensor> slopes = run_on_device(g, backward, in);
      const AttentionGradients want = gradients_of(m, o, false);
      CHECK(relative_error(y[0], want.y) <= storage_tolerance(t));
      CHECK(relative_error(slopes[0], want.dq) <= storage_tolerance(t));
      CHECK(relative_error(slopes[1], want.dk) <= storage_tolerance(t));
      CHECK(relative_error(slopes[2], want.dv) <= storage_tolerance(t));
    }
  }
}
