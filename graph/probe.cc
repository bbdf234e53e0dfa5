// probe() binds with bind_tolerant(), seeds all floating-point outputs with ones and runs Autodiff. Both collect errors
// instead of stopping at the first.
#include "graph/probe.h"

#include "graph/autodiff.h"
#include "graph/symbols.h"

namespace amp {

namespace {

// Returns the graph's values of the parameters that are trainable.
std::vector<ValueId> trained(const Graph& g, const std::vector<bool>& trainable) {
  std::vector<ValueId> out;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::param && trainable[static_cast<size_t>(v.slot)]) out.push_back(ValueId{i});
  }
  return out;
}

void differentiate(const SourceGraph& g, const Bound& bound, Builder& b, const std::vector<ValueId>& outputs,
                   const std::vector<ValueId>& wrt, Probe& p) {
  const int32_t nodes = b.graph().n_nodes();
  for (int32_t n = 0; n < nodes; ++n) {
    const Node& node = b.graph().node(NodeId{n});
    const int source = node.origin.source_node;
    if (source >= 0 && !node.op->deferred) p.folded[static_cast<size_t>(source)] = false;
  }
  Autodiff ad(b, wrt);
  for (const ValueId y : outputs) {
    const Value v = b.value(y);
    if (is_float(v.dtype) && ad.wanted(y)) ad.seed(y, b.expand(b.scalar(1, v.dtype), v.dims));
  }
  std::vector<std::pair<NodeId, Error>> faults;
  ad.run(&faults);
  for (const auto& [node, error] : faults) {
    const int source = b.graph().node(node).origin.source_node;
    if (source >= 0) p.backward.emplace(source, error);
  }
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int v : g.nodes[n].outputs) {
      if (v < 0 || !bound.values[static_cast<size_t>(v)]) continue;
      ValueId bound_to = bound.values[static_cast<size_t>(v)];
      // A quantized value is a floating-point value that was cast to an integer. The gradient bypasses this Cast
      // (ops/composed/quantize.h), so the input of the Cast is examined instead of its output.
      if (const NodeId by = b.value(bound_to).producer;
          by && b.graph().node(by).op->name == "Cast" && !is_float(b.dtype(bound_to)))
        bound_to = b.graph().node(by).in[0];
      if (ad.wanted(bound_to) && ad.reached(bound_to)) p.gradient[n] = true;
    }
  }
  for (const ValueId v : wrt) p.reached[static_cast<size_t>(b.value(v).slot)] = ad.reached(v);
}

}  // namespace

Probe probe(const SourceGraph& g, const ParamTable& params, const BindOptions& o, const std::vector<bool>& trainable,
            const Evaluator& evaluator) {
  Probe p;
  p.gradient.assign(g.nodes.size(), false);
  p.folded.assign(g.nodes.size(), true);
  p.reached.assign(params.size(), false);
  Graph graph;
  Builder b(graph, evaluator);
  const Bound bound = bind_tolerant(g, params, o, b, p.forward);
  p.dims.resize(g.values.size());
  p.known.assign(g.values.size(), false);
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (!bound.values[v]) continue;
    p.known[v] = true;
    p.dims[v] = b.dims(bound.values[v]);
  }
  std::vector<ValueId> outputs;
  for (const int v : o.outputs) {
    if (bound.values[static_cast<size_t>(v)]) outputs.push_back(bound.values[static_cast<size_t>(v)]);
  }
  differentiate(g, bound, b, outputs, trained(graph, trainable), p);
  return p;
}

std::map<std::string, Dims> probe_dims(const SourceGraph& g, const std::vector<int>& outputs, int64_t batch,
                                       int64_t length) {
  std::map<std::string, Dims> out;
  const SymbolSizes symbols = probed_symbols(g, batch, length);
  for (const int v : needed_inputs(g, outputs)) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    Dims& d = out[x.name];
    for (size_t i = 0; i < x.dims.size(); ++i)
      d.push_back(x.dims[i].value >= 0 ? x.dims[i].value
                  : i == 0             ? batch
                                       : symbols.of(x.dims[i].symbol).value_or(i == 1 ? length : 1));
  }
  return out;
}

}  // namespace amp
