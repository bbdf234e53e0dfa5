// The precision plan: the compute type of every node of the imported graph, and the reason.
//
// Decisions, in order: Nodes without floating-point arithmetic are excluded. A decomposed operator (units.h) becomes
// one vertex of the graph on which classes propagate (plan_graph.h). Each vertex gets its operator's class from the
// op-list. Nodes that read constants beyond 16 bits get the class deny (safety.h). Rules of the op-list replace the
// class of matching nodes. Classes propagate (paint.h, or PyTorch's widest-input rule). A rule's type then overrides
// the propagated type. The result depends only on graph and list. The loss is not part of the SourceGraph and is always
// fp32.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"

namespace amp {

enum class Compute : uint8_t { f32, f16, bf16 };
std::string_view name_of(Compute c);  // returns "fp32", "fp16" or "bf16"
Compute compute_of(DType t);          // t must be f32, f16 or bf16
DType dtype_of(Compute c);

struct Decision {
  Compute compute = Compute::f32;
  std::string cls;   // class of the node: allow, infer, deny, clear, unlisted, not-float
  std::string rule;  // the rule that decided: "deny list of O1", "rule 3 of my.json: outliers", "node 'x' (Softmax)"
  // The deciding step: class, rule, safety, no-weights, inputs, not-float, or paint ("paint: between allow nodes").
  std::string pass;
};

struct PrecisionPlan {
  DType low = DType::f16;       // f16 or bf16; f32: only rules can select 16 bits
  std::vector<Decision> nodes;  // per SourceNode
  std::vector<std::string> warnings;
  OpList list;              // including inherited entries
  std::string fingerprint;  // graph_fingerprint() of the graph

  bool any_low() const;
  bool any_f16() const;  // whether a node computes in fp16; only then is loss scaling enabled
};

// Returns a stable 64-bit hash (FNV-1a, 16 hex digits) of nodes, attributes and edges: "fnv1a:0123456789abcdef".
// Weights, shapes and aliases are not hashed.
std::string graph_fingerprint(const SourceGraph& g);

// Decides the type of every node. low: f16, bf16 or f32. Throws usage errors. E_PLAN_GRAPH: the op-list records the
// plan of another graph. E_PLAN_NO_KERNEL (with the nearest name): a rule requests 16 bits only for nodes that have
// no floating-point arithmetic or compute in float64.
PrecisionPlan decide(const SourceGraph& g, const OpList& list, DType low);

}  // namespace amp
