// Runs a core node inside another node's kernel. If no library has a kernel for a fused node, the fused node's
// kernel calls the kernels of the single operators in this way.
#pragma once

#include <memory>

#include "backend/cpu/workspace.h"
#include "graph/op.h"

namespace amp {

// Returns the kernel of a core node. Called in a prepare function (backend/cpu/workspace.h), on the outer kernel's
// device.
inline Kernel inner_node(const KernelArgs& outer, Carver& carver, DeviceKind kind, const char* op, const Attrs& attrs,
                         std::vector<Tensor> in, std::vector<Tensor> out) {
  struct Inner {
    OpDef def;
    Graph graph;
  };
  const auto inner = std::make_shared<Inner>();
  inner->def.name = op;
  const std::shared_ptr<Graph> graph(inner, &inner->graph);
  std::vector<ValueId> inputs;
  for (const Tensor& t : in)
    inputs.push_back(t.data || carver.measuring() ? graph->add_input(cat("in", inputs.size()), t.dtype, t.dims)
                                                  : ValueId{});
  std::vector<std::pair<DType, Dims>> outputs;
  for (const Tensor& t : out) outputs.emplace_back(t.dtype, t.dims);
  Node like;
  // A plugin has kernels but no table of operators, so an OpDef that has only the operator's name is used there.
  like.op = kind == DeviceKind::cpu ? &core_op(op) : &inner->def;
  like.attrs = attrs;
  like.origin = outer.node.origin;
  const Node& node = graph->node(graph->add_copy(like, std::move(inputs), outputs));
  const MeasureWorkspace measure = kind == DeviceKind::cpu ? node.op->workspace : find_workspace(kind, op);
  char* const workspace = carver.take<char>(measure ? measure(*graph, node) : 0);
  if (carver.measuring()) return {};
  KernelArgs args{node, std::move(in), std::move(out), workspace, outer.state, outer.device};
  return [graph, run = find_kernel(kind, op)(args)] { run(); };
}

}  // namespace amp
