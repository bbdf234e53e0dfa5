// Reads the weight of a product as a dense tensor. A quantized weight is dequantized by binding the model's own nodes
// for this (graph/bind.h), so that only ops/ describes the formats.
#include <algorithm>

#include "graph/bind.h"
#include "importer/surgery/lora_nodes.h"
#include "importer/surgery/low_rank.h"

namespace amp {
namespace {

HostTensor oriented(const HostTensor& t, bool transposed) {
  const HostTensor x = t.cast(DType::f32);
  return transposed ? transposed_matrix(x) : x;
}

// Lowers a graph of only `n`, a product with packed weights, and returns the constant that the MatMul reads.
HostTensor unpacked_weight(const SourceGraph& g, const SourceNode& n, const Evaluator& evaluate) {
  SourceGraph one;
  one.opsets = g.opsets;
  SourceNode copy = n;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] < 0) continue;
    SourceValue v = g.value(n.inputs[i]);
    v.name = "input" + std::to_string(i);
    v.producer = v.tied_to = -1;
    v.kind = i == 0 ? SourceKind::input : SourceKind::constant;
    if (i == 0) v.data = {};
    if (i == 5) {  // the bias
      copy.inputs[i] = -1;
      continue;
    }
    copy.inputs[i] = one.add_value(std::move(v));
    if (i == 0) one.inputs = {copy.inputs[0]};
  }
  SourceValue y;
  y.name = "y";
  copy.outputs = one.outputs = {one.add_value(y)};
  one.add_node(copy);
  BindOptions o;
  o.outputs = one.outputs;
  const bool swapped = n.op == "MatMulBnb4" && n.attrs.i("transB", 1) == 0;
  o.input_dims["input0"] = {1, n.attrs.i(swapped ? "N" : "K", 0)};
  Graph graph;
  Builder b(graph, evaluate);
  bind(one, ParamTable(one), o, b);
  for (int32_t i = 0; i < graph.n_nodes(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op->name != std::string_view("MatMul")) continue;
    if (const HostTensor w = b.content_of(node.in.at(1))) return oriented(w, node.attrs.i("transB", 0) != 0);
  }
  return {};
}

}  // namespace

HostTensor dense_weight(const SourceGraph& g, const LinearMap& map, const Evaluator& evaluate) {
  const SourceNode& n = g.nodes[static_cast<size_t>(map.uses.front().node)];
  if (map.kind == MapKind::product) return oriented(g.value(map.weight).data, map.transposed);
  if (map.kind == MapKind::packed) return unpacked_weight(g, n, evaluate);
  if (map.kind != MapKind::dequantized) return {};
  BindOptions o;
  o.outputs = {n.inputs[1]};
  Graph graph;
  Builder b(graph, evaluate);
  const Bound bound = bind(g, ParamTable(g), o, b);
  const HostTensor w = b.content_of(bound.values[static_cast<size_t>(n.inputs[1])]);
  return w ? oriented(w, n.attrs.i("transB", 0) != 0) : HostTensor{};
}

}  // namespace amp
