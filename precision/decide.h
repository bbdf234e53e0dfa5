// The precision plan: the compute type of every node of the imported graph, and the reason.
//
// The order of decisions: nodes without floating-point arithmetic are excluded. A decomposed operator (units.h) becomes
// one vertex of the graph on which classes propagate (plan_graph.h). Each vertex gets its operator's class from the
// op-list. Constants beyond 16 bits deny the nodes that read them (safety). Rules of the op-list replace the class of
// matching nodes. Classes propagate (paint.h, or PyTorch's widest-input rule). A rule's type then overrides the
// propagated one. The result depends only on graph and list. The loss is not part of the SourceGraph and is always
// fp32.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"

namespace amp {

enum class Compute : uint8_t { f32, f16, bf16 };
std::string_view name_of(Compute c);  // "fp32", "fp16", "bf16"
Compute compute_of(DType t);          // requires f32, f16 or bf16
DType dtype_of(Compute c);

struct Decision {
  Compute compute = Compute::f32;
  std::string cls;   // allow, infer, deny, clear, unlisted, not-float
  std::string rule;  // the deciding rule: "deny list of O1", "rule 3 of my.json: outliers", "node 'x' (Softmax)"
  // class, rule, safety, no-weights, inputs, not-float, or a paint pass ("paint: between allow nodes")
  std::string pass;
};

struct PrecisionPlan {
  DType low = DType::f16;       // f16, bf16, or f32: a plan in which only rules can select 16 bits
  std::vector<Decision> nodes;  // per SourceNode
  std::vector<std::string> warnings;
  OpList list;              // including inherited entries
  std::string fingerprint;  // graph_fingerprint() of the graph

  bool any_low() const;
  bool any_f16() const;  // loss scaling is enabled only then
};

// A stable 64-bit hash (FNV-1a, 16 hex digits) of nodes, attributes and edges: "fnv1a:0123456789abcdef". Weights,
// shapes and aliases are not included.
std::string graph_fingerprint(const SourceGraph& g);

// Decides the type of every node. low: f16, bf16 or f32. Throws usage errors: E_PLAN_GRAPH if the op-list records the
// plan of another graph; E_PLAN_NO_KERNEL (with the nearest name) if a rule requests 16 bits only for nodes without
// floating-point arithmetic or with float64.
PrecisionPlan decide(const SourceGraph& g, const OpList& list, DType low);

}  // namespace amp
