// The projections of q, k and v as one product (ops/passes/qkv.h) on the CPU: in training, with weights laid side by
// side anew for each node that reads them so.
#include "ops/passes/qkv.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>

#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/trainer/merged_bert.h"
#include "trainer/step_engine.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Found {
  int merged = 0, parted = 0, joins = 0, most_readers = 0;
};
Found look(const Graph& g) {
  Found out;
  std::map<int32_t, int> readers;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    out.merged += node.op->name == "FusedAttention" && node.attrs.i("packed", 0) != 0;
    out.parted += node.op->name == "MatMulBiasGrad" && node.attrs.i("parts", 1) == 3;
    for (const ValueId v : node.in) {
      if (v && g.value(v).kind == ValueKind::temp && g.node(g.value(v).producer).op->name == "Concat")
        out.most_readers = std::max(out.most_readers, ++readers[v.index]);
    }
    out.joins += node.op->name == "Concat";
  }
  return out;
}

}  // namespace

TEST_CASE("q, k and v are one product in training on the CPU", "[qkv]") {
  const SourceGraph source = small_bert();
  LossSpec loss;
  loss.outputs = loss.reads = {"logits"};
  loss.label = "label";
  const Losses losses = loss;
  const Tensors batch{{"input_ids", HostTensor::of<int64_t>({2, 3}, {1, 10, 3, 0, 7, 2})},
                      {"label", HostTensor::of<int64_t>({2}, {1, 0})}};
  Session session(source, {});
  const Found train = look(*session.train_graph(losses, batch));
  CHECK(train.merged == 2);
  CHECK(train.parted == 2);
  // Weights and biases in forward; weights again for the gradient to x, which the first layer's embeddings take, too.
  CHECK(train.joins == 2 * 3);
  CHECK(train.most_readers == 1);

  SECTION("stored in bf16, the weights that the update keeps follow their masters") {
    SessionOptions o;
    o.low = DType::bf16;
    for (const Decision& d : decide(source, preset("O1"), o.low).nodes) o.compute.push_back(dtype_of(d.compute));
    Session low(source, o);
    low.prepare(losses, batch);
    CHECK(look(*low.train_graph(losses, batch)).merged == 2);
    ScheduleConfig schedule;
    schedule.kind = "constant";
    schedule.lr = 1e-2;
    schedule.total_steps = 3;
    LossScaleConfig scale;
    scale.mode = LossScaleConfig::Mode::off;
    StepEngine engine(low, {}, schedule, scale, losses, 3);
    for (int step = 0; step < 3; ++step) {
      LossWindow counted(losses);
      counted.count(batch);
      engine.submit({step, &losses, {batch}, {1}, false}, counted);
      REQUIRE(engine.take(true).has_value());
    }
    int joined = 0;
    for (const ParamCache::Copy& c : low.copies().copies()) {
      if (c.row == 0) continue;
      ++joined;
      const HostTensor want = low.param(c.slot).cast(DType::bf16), got = gathered(cpu_device(), c);
      CHECK(std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())) == 0);
      CHECK(low.param(c.slot).to_doubles() != session.param(c.slot).to_doubles());
    }
    CHECK(joined == 2 * 6);  // weights and biases
  }
}
