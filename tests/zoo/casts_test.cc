// Compares the number of casts in a plan with the minimum for the plan's storage types.
//
// A kernel can load and store either type. So a value needs a cast only if it must exist in both: 16-bit nodes read it,
// and it is also read (or returned) in fp32. Then one cast is necessary, because no other value has the same elements.
// A parameter is kept as an fp32 master weight and needs a cast if 16-bit nodes read it. Adjacent parameters, or slices
// of one parameter, share a cast. The test checks that every cast is of one of these kinds.
//
// Counted by hand: BERT under O1 has residual sums in fp32 and products in fp16, so it needs eight casts. Four cast the
// LayerNorm outputs that are read in both types: the input and the middle of each layer. (Only the pooler reads the
// last LayerNorm.) The other four cast the gradients that are added at these outputs. UNet and ResNet have no deny
// operator between convolutions, so they need none.
#include <catch2/catch_all.hpp>
#include <cstring>
#include <map>
#include <set>

#include "golden.h"
#include "precision/cost.h"
#include "precision/decide.h"
#include "stripped_models.h"
#include "tests/support.h"

namespace amp::test {

namespace {

struct Casts {
  int weights = 0, forward = 0, backward = 0;
  std::string text() const { return cat(weights, " weights, ", forward, " forward, ", backward, " backward"); }
};

std::shared_ptr<const Graph> graph_of(const SourceGraph& g, const std::string& list, const LossSpec& loss,
                                      const Tensors& batch) {
  const PrecisionPlan plan = decide(g, preset(list), DType::f16);
  SessionOptions o;
  o.low = plan.low;
  for (const Decision& d : plan.nodes) o.compute.push_back(dtype_of(d.compute));
  return Session(g, o).train_graph(loss, batch);
}

bool is_cast(const Graph& g, const Node& n) {
  return n.op->name == "Cast" && is_float(g.value(n.in[0]).dtype) && is_float(g.value(n.out[0]).dtype);
}

// Returns whether v, or a view or transpose of it, is read in fp32.
bool wanted_wide(const Graph& g, ValueId v) {
  for (const auto& o : g.outputs) {
    if (o.value == v) return true;
  }
  for (const auto& p : g.param_grads) {
    if (p.value == v) return true;
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (is_cast(g, node) || std::find(node.in.begin(), node.in.end(), v) == node.in.end()) continue;
    if (!node.op->moves && !node.op->view) return true;
    if (wanted_wide(g, node.out[0])) return true;
  }
  return false;
}

// Returns the value that v is a view of; for a concatenation, its first input.
ValueId behind(const Graph& g, ValueId v) {
  while (g.value(v).kind == ValueKind::temp) {
    const Node& n = g.node(g.value(v).producer);
    if (!n.op->view && !n.op->moves) break;
    v = n.in[0];
  }
  return v;
}

Casts check_casts(const Graph& g) {
  Casts out;
  std::set<std::pair<int32_t, DType>> once;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (!is_cast(g, node)) continue;
    const Value& x = g.value(node.in[0]);
    INFO("cast of " << (x.kind == ValueKind::temp ? g.node(x.producer).op->name : x.name) << ", " << node.origin.role
                    << " #" << node.origin.source_node);
    CHECK(x.dtype == DType::f32);  // no casts to fp32, because fp32 kernels read 16-bit values
    CHECK(once.emplace(behind(g, node.in[0]).index, g.value(node.out[0]).dtype).second);
    const bool weight = g.value(behind(g, node.in[0])).kind == ValueKind::param;
    CHECK((weight || wanted_wide(g, node.in[0])));
    if (weight) {
      ++out.weights;
    } else {
      ++(std::strcmp(node.origin.role, "gradient of") == 0 ? out.backward : out.forward);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("BERT has the fewest casts its plan allows") {
  for (const char* name : {"bert_cls_eager_ts14", "bert_cls_sdpa_dyn18"}) {
    const Golden e(test_data("zoo/") + name);
    for (const char* list : {"O1", "O2", "pytorch"}) {
      DYNAMIC_SECTION(name << ' ' << list) {
        const std::shared_ptr<const Graph> graph = graph_of(e.model.graph, list, e.loss, e.batch);
        const Casts c = check_casts(*graph);
        // The plan's report counts the casts of the graph.
        const PlanCost cost = measure_plan(*graph, e.model.graph.nodes.size());
        CHECK(cost.casts().size() == static_cast<size_t>(c.weights + c.forward + c.backward));
        INFO(c.text());
        if (list == std::string("O2")) {
          CHECK(c.forward == 0);
          CHECK(c.backward == 0);
        } else {
          CHECK(c.forward == 4);
          CHECK(c.backward == 4);
        }
        // Eight casts per layer: the six tensors of query, key and value are adjacent and are cast as two.
        if (list == std::string("O1")) CHECK(c.weights == 16);
      }
    }
  }
}

TEST_CASE("UNet and ResNet need no cast but their weights'") {
  const HostTensor image = HostTensor::zeros(DType::f32, {2, 3, 32, 32});
  LossSpec classes, pixels;
  pixels.kind = "cross_entropy_nchw";
  pixels.outputs = classes.outputs = {"logits"};
  int seen = 0;
  for (const NamedTensor& m : stripped_models()) {
    const bool unet = m.name.find("_ce_") != std::string::npos;
    if (!unet && !m.name.starts_with("resnet")) continue;
    ++seen;
    const SourceGraph g = stripped_model(m);
    const Tensors batch = {{"input", image},
                           {"label", HostTensor::zeros(DType::i64, unet ? Dims{2, 32, 32} : Dims{2})}};
    for (const char* list : {"O1", "O2", "pytorch"}) {
      DYNAMIC_SECTION(m.name << ' ' << list) {
        const Casts c = check_casts(*graph_of(g, list, unet ? pixels : classes, batch));
        CHECK(c.forward == 0);
        CHECK(c.backward == 0);
        CHECK(c.weights > 0);
      }
    }
  }
  CHECK(seen == 5);
}

}  // namespace amp::test
