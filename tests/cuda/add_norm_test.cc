// Training with dropout, residual sums and norms in one node or apart: the same bits, on the CPU and in the emulator.
#include <catch2/catch_all.hpp>

#include "backend/cuda/emulated_device.h"
#include "importer/dropout.h"
#include "ops/add_norm_fusion.h"
#include "ops/norm_sums.h"
#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/on_device.h"
#include "tests/cuda/trained.h"
#include "tests/ops/one_node.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a model with dropout trains to the same bits when sums and norms are one node", "[cuda]") {
  Golden g(test_data() + "/zoo/bert_cls_sdpa_dyn18");
  std::vector<std::string> notes;
  DropoutOptions dropout;
  dropout.ratio = 0.2;
  dropout.asked = true;
  dropout.outputs = g.model.graph.outputs;
  REQUIRE(insert_dropout(g.model.graph, dropout, notes).size() >= 5);
  const auto device = cuda::make_emulated_device();
  for (const DType low : {DType::f32, DType::f16, DType::bf16}) {
    INFO(name_of(low));
    CHECK(same_bits(trained(g, cpu_device(), low, 2, true), trained(g, cpu_device(), low, 2, false)));
    CHECK(same_bits(trained(g, *device, low, 2, true), trained(g, *device, low, 2, false)));
  }
  SessionOptions o;
  const auto apart = Session(g.model.graph, o).train_graph(g.loss, g.batch);
  const Graph together = fuse_norms(*apart);
  int forward = 0, backward = 0;
  for (int32_t n = 0; n < together.n_nodes(); ++n) {
    const Node& node = together.node(NodeId{n});
    forward += node.op->name == "AddNorm" && node.attrs.f("ratio", 0) == 0.2;
    backward += node.op->name == "AddNormGrad" && node.attrs.f("ratio", 0) == 0.2;
  }
  CHECK(forward == 4);
  CHECK(backward >= 4);
  // What the emulated device trained above: gradients that meet in who reads them.
  const Graph merged = merge_norm_sums(together);
  int met = 0;
  for (int32_t n = 0; n < merged.n_nodes(); ++n) {
    const Node& node = merged.node(NodeId{n});
    met += node.op->name == "AddNormGrad" && node.in.size() > 7 && node.in[7];
  }
  CHECK(met >= 3);
}

// In 16 bits AddNorm adds a branch's bias, in fp32, and its gradient is a sum of columns beside the norm's own.
TEST_CASE("sums of norms and of their branches' biases are one node", "[cuda]") {
  const Golden g(test_data() + "/zoo/bert_cls_sdpa_dyn18");
  SessionOptions o;
  o.low = DType::bf16;
  for (const Decision& d : decide(g.model.graph, preset("O1"), o.low).nodes) o.compute.push_back(dtype_of(d.compute));
  const Graph merged = merge_norm_sums(fuse_norms(*Session(g.model.graph, o).train_graph(g.loss, g.batch)));
  int sums = 0, left = 0;
  for (int32_t n = 0; n < merged.n_nodes(); ++n) {
    const Node& node = merged.node(NodeId{n});
    sums += node.op->name == "NormSums" && node.out.size() == 3;
    left += node.op->name == "LayerNormGradWeights";
  }
  CHECK(sums == 4);
  CHECK(left == 1);  // of the embeddings' norm, which has no branch
}

// Rows of lengths that a warp holds in 3, 6 or 8 groups of four a thread, and longer ones, in the types of a plan whose
// residual stream is fp32: kernels of their own.
TEST_CASE("sums and norms with 16-bit branches are the CPU's at every length", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const int64_t n : {12, 300, 768, 1000, 1024, 2048, 771}) {
    for (const DType low : {DType::f32, DType::f16, DType::bf16}) {
      INFO(n << " " << name_of(low));
      const std::vector<HostTensor> in{draw({5, n}, 1, low), draw({5, n}, 2), draw({n}, 3), draw({n}, 4), draw({n}, 5)};
      const Attrs attrs{{"n", n}, {"epsilon", 1e-5}};
      OnDevice forward(*device, "AddNorm", in, attrs, DType::f32);
      const std::vector<HostTensor> got = forward.run(in), want = on_cpu("AddNorm", in, attrs);
      for (size_t i = 0; i < want.size(); ++i) CHECK(worst(got[i], want[i]) < 2e-6);
      const std::vector<HostTensor> back{got[1], in[2], got[2], got[3], draw({5, n}, 6), draw({5, n}, 7)};
      OnDevice backward(*device, "AddNormGrad", back, attrs, DType::f32);
      const std::vector<HostTensor> ds = backward.run(back), wanted = on_cpu("AddNormGrad", back, attrs);
      CHECK(worst(ds[0], wanted[0]) < 4e-6);
    }
  }
}
