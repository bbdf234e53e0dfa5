// The projections of q, k and v as one product (ops/passes/qkv.h) on the CPU: training, with weights concatenated
// separately for each node that reads them.
#include "ops/passes/qkv.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "tests/trainer/merged_bert.h"

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
  const Losses losses = bert_loss();
  const Tensors batch = bert_batch();
  Session session(source, {});
  const Found train = look(*session.train_graph(losses, batch));
  CHECK(train.merged == 2);
  CHECK(train.parted == 2);
  // Each layer concatenates weights and biases in forward, and weights once more for the gradient of x. The first layer
  // needs that gradient, too, for the embeddings.
  CHECK(train.joins == 2 * 3);
  CHECK(train.most_readers == 1);

  SECTION("stored in bf16, the weights that the update keeps follow their masters") {
    Session low(source, in_bf16(source));
    low.prepare(losses, batch);
    CHECK(look(*low.train_graph(losses, batch)).merged == 2);
    train_and_check_copies(low, cpu_device(), losses, batch);
    for (const ParamCache::Copy& c : low.copies().copies()) {
      if (c.row != 0) CHECK(low.param(c.slot).to_doubles() != session.param(c.slot).to_doubles());
    }
  }
}
