// The precision plan: for every node of the imported graph the type it computes in, and why.
//
// In this order: what is no floating arithmetic is left alone; spelled-out composites (units.h) become one vertex; each
// vertex takes its operator's class from the op-list; constants that 16 bits cannot hold deny the nodes that meet them
// (safety); the op-list's rules replace the class of the nodes they match; the classes propagate (paint.h, or PyTorch's
// widest-input rule); what a rule says of a node stands whatever propagation found. Deterministic: graph and list alone
// decide. The loss is no part of the SourceGraph and always fp32.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"

namespace amp {

enum class Compute : uint8_t { f32, f16, bf16 };
std::string_view name_of(Compute c);  // "fp32", "fp16", "bf16"
Compute compute_of(DType t);          // of f32, f16, bf16
DType dtype_of(Compute c);

struct Decision {
  Compute compute = Compute::f32;
  std::string cls;   // allow, infer, deny, clear, unlisted, not-float
  std::string rule;  // what decided: "deny list of O1", "rule 3 of my.json: outliers", "node 'x' (Softmax)"
  std::string
      pass;  // class, rule, safety, no-weights, inputs, not-float, or a paint pass ("paint: between allow nodes")
};

struct PrecisionPlan {
  DType low = DType::f16;       // f16, bf16, or f32: a plan in which nothing is low but what rules force
  std::vector<Decision> nodes;  // by SourceNode
  std::vector<std::string> warnings;
  OpList list;              // with everything it inherits
  std::string fingerprint;  // of the graph

  bool any_low() const;
  bool any_f16() const;  // loss scaling is on only then
};

// A stable 64-bit hash (FNV-1a, 16 hex digits) of nodes, attributes and edges: "fnv1a:0123456789abcdef". Weights,
// shapes and aliases do not enter.
std::string graph_fingerprint(const SourceGraph& g);

// low: f16, bf16 or f32. Usage errors: an op-list that records another graph's plan (E_PLAN_GRAPH); a rule that asks 16
// bits of nodes that all have no floating arithmetic, or float64's (E_PLAN_NO_KERNEL, with the nearest name).
PrecisionPlan decide(const SourceGraph& g, const OpList& list, DType low);

}  // namespace amp
