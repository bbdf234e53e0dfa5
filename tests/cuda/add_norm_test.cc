// Training with dropout, residual sum and norm in one fused node gives the same bits as with separate nodes, on the CPU
// and in the emulator.
#include <catch2/catch_all.hpp>

#include "importer/surgery/dropout.h"
#include "ops/norm_sums.h"
#include "ops/passes/add_norm_fusion.h"
#include "ops/passes/norm_recomputation.h"
#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/on_device.h"
#include "tests/cuda/trained.h"
#include "tests/emulator/emulated_device.h"
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
  CHECK(backward >= 3);  // the last layer's input may be only its first token (ops/passes/slice_hoisting.h)
  // Norm kernels that read a sum of two gradients compute the sum themselves in this pass. The emulated device used it
  // for the training above.
  const Graph merged = merge_norm_sums(together);
  int met = 0;
  for (int32_t n = 0; n < merged.n_nodes(); ++n) {
    const Node& node = merged.node(NodeId{n});
    met += node.op->name == "AddNormGradSums" && node.in.size() > 7 && node.in[7];
  }
  CHECK(met >= 3);
}

// With 16-bit branches, AddNorm adds a branch's bias in fp32. The bias's gradient is one more column sum.
TEST_CASE("sums of norms and of their branches' biases are one node", "[cuda]") {
  const Golden g(test_data() + "/zoo/bert_cls_sdpa_dyn18");
  SessionOptions o;
  o.low = DType::bf16;
  for (const Decision& d : decide(g.model.graph, preset("O1"), o.low).nodes) o.compute.push_back(dtype_of(d.compute));
  const Graph merged = merge_norm_sums(fuse_norms(*Session(g.model.graph, o).train_graph(g.loss, g.batch)));
  int sums = 0, left = 0;
  for (int32_t n = 0; n < merged.n_nodes(); ++n) {
    const Node& node = merged.node(NodeId{n});
    sums += node.op->name == "AddNormGradSums" && node.attrs.has("summed");
    left += node.op->name == "LayerNormGradWeights";
  }
  CHECK(sums >= 2);  // only in layers of whole sequences, because there are too few rows after the last attention
  // The sums of every norm are fused, also those of the embeddings' norm, which has no branch.
  CHECK(left == 0);
}

// Tests rows that a warp keeps as 3, 6 or 8 groups of four per thread, and longer rows, in the types of a plan with
// an fp32 residual stream. Each combination has a separate kernel.
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

// The training above (bf16, dropout) also uses this pass.
TEST_CASE("norms that only residual sums read are recomputed", "[cuda]") {
  const Golden g(test_data() + "/zoo/bert_cls_sdpa_dyn18");
  SessionOptions o;
  o.low = DType::bf16;
  for (const Decision& d : decide(g.model.graph, preset("O1"), o.low).nodes) o.compute.push_back(dtype_of(d.compute));
  const Graph with =
      recompute_norms(merge_norm_sums(fuse_norms(*Session(g.model.graph, o).train_graph(g.loss, g.batch))));
  int unstored = 0, recomputed = 0;
  for (int32_t n = 0; n < with.n_nodes(); ++n) {
    const Node& node = with.node(NodeId{n});
    if (node.op->name != "AddNorm") continue;
    unstored += node.attrs.i("y", 1) == 0;
    recomputed += node.in.size() > 6;
    CHECK((node.attrs.i("y", 1) == 0 ? node.out.size() == 4 : node.out.size() >= 4));
  }
  CHECK(unstored >= 2);  // all but the last layer's input, which a Slice reads
  CHECK(recomputed == unstored);
}

// Runs two norms in sequence, where the first result is stored or recomputed.
TEST_CASE("a recomputed residual has the bits of a stored one", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const int64_t n : {12, 384, 768, 771, 2048}) {
    for (const bool bias : {true, false}) {
      INFO(n << ' ' << bias);
      const std::vector<HostTensor> in{draw({5, n}, 1, DType::bf16), draw({5, n}, 2), draw({n}, 3),
                                       bias ? draw({n}, 4) : HostTensor{}, draw({n}, 5)};
      const Attrs attrs{{"n", n}, {"epsilon", 1e-5}, {"copy", static_cast<int64_t>(DType::bf16)}};
      Attrs unstored = attrs;
      unstored.set("y", int64_t{0});
      const auto stored = OnDevice(*device, "AddNorm", in, attrs, {}).run(in);
      const auto first = OnDevice(*device, "AddNorm", in, unstored, {}).run(in);
      REQUIRE(first.size() == 4);
      for (size_t i = 0; i < 4; ++i) CHECK(same_bits(first[i], stored[i + 1]));
      std::vector<HostTensor> next{draw({5, n}, 7, DType::bf16), stored[0], draw({n}, 8), draw({n}, 9), HostTensor{}};
      const auto want = OnDevice(*device, "AddNorm", next, attrs, {}).run(next);
      next[1] = stored[1];
      next.insert(next.end(), {HostTensor{}, stored[2], stored[3], in[2], in[3]});
      const auto got = OnDevice(*device, "AddNorm", next, attrs, {}).run(next), cpu = on_cpu("AddNorm", next, attrs);
      for (size_t i = 0; i < want.size(); ++i) {
        CHECK(same_bits(got[i], want[i]));
        if (i < 4) CHECK(worst(got[i], cpu[i]) < 2e-6);
      }
    }
  }
}

namespace {

struct SumsCase {
  int64_t rows, n;
  DType low;
  double ratio;
  int64_t summed;  // index of the result that is summed over the rows; -1: none
};

// Compares AddNormGradSums with AddNormGrad, LayerNormGradWeights and ReduceSum on the device.
void check_sums(cuda::EmulatedDevice& device, const SumsCase& c) {
  INFO(c.rows << " x " << c.n << ' ' << name_of(c.low) << " ratio " << c.ratio << " summed " << c.summed);
  const Dims dims{c.rows, c.n};
  const std::vector<HostTensor> in{draw(dims, 1), draw({c.n}, 2), draw({c.rows}, 3), draw({c.rows}, 4),
                                   draw(dims, 5), draw(dims, 6),  HostTensor{},      draw(dims, 7)};
  Attrs a{{"n", c.n}};
  if (c.ratio > 0) {
    a.set("ratio", c.ratio);
    a.set("site", int64_t{3});
    a.set("rows", c.rows);
  }
  if (c.low != DType::f32) a.set("copy", static_cast<int64_t>(c.low));
  const auto results = static_cast<size_t>(1 + (c.ratio > 0) + (c.low != DType::f32));
  Attrs with = a;
  with.set("first_sum", static_cast<int64_t>(results));
  if (c.summed >= 0) with.set("summed", c.summed);
  const std::vector<HostTensor> apart = OnDevice(device, "AddNormGrad", in, a, {}).run(in);
  OnDevice both(device, "AddNormGradSums", in, with, {});
  const std::vector<HostTensor> got = both.run(in);
  REQUIRE(got.size() == results + (c.summed >= 0 ? 3 : 2));
  for (size_t i = 0; i < results; ++i) CHECK(same_bits(got[i], apart[i]));

  HostTensor dy = HostTensor::zeros(DType::f32, dims);  // the operand that a separate Add would compute
  for (int64_t i = 0; i < dy.numel(); ++i) dy.as_mutable<float>()[i] = in[4].as<float>()[i] + in[7].as<float>()[i];
  const std::vector<HostTensor> of_norm{in[0], in[2], in[3], dy};
  const std::vector<HostTensor> weights =
      OnDevice(device, "LayerNormGradWeights", of_norm, {{"n", c.n}}, DType::f32).run(of_norm);
  CHECK(same_bits(got[results], weights[0]));
  CHECK(same_bits(got[results + 1], weights[1]));
  if (c.summed >= 0) {
    const std::vector<HostTensor> of{apart[static_cast<size_t>(c.summed)]};
    const Attrs axes{{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}};
    CHECK(same_bits(got[results + 2], OnDevice(device, "ReduceSum", of, axes, DType::f32).run(of)[0]));
  }
  // A second run works, because every run resets the counters to zero.
  CHECK(same_bits(both.run(in)[results], weights[0]));
}

}  // namespace

// The numbers of rows give chunks of one class and of all classes (ops/cuda/chunk_sums.cuh), also with a short
// last chunk. The row lengths give several rows per warp, and rows that are too long for a warp.
TEST_CASE("sums taken with a norm's gradient are the bits of separate sums", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const int64_t rows : {1, 16, 17, 63, 64, 300, 4099}) {
    for (const int64_t n : {128, 384}) check_sums(*device, {rows, n, DType::bf16, 0, 1});
  }
  for (const int64_t n : {12, 132, 768, 1000, 1024, 1028, 130}) {
    check_sums(*device, {70, n, DType::f32, 0, 0});
    check_sums(*device, {70, n, DType::f16, 0.1, 2});
    check_sums(*device, {70, n, DType::bf16, 0.1, 1});
    check_sums(*device, {70, n, DType::bf16, 0, -1});
  }
}
