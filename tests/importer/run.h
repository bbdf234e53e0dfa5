// Runs a small imported model in the interpreter, with gradients of the sum of its first output.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/interpreter.h"
#include "graph/autodiff.h"
#include "graph/bind.h"

namespace amp::test {

using Numbers = std::vector<double>;

inline HostTensor floats(Dims dims, const Numbers& v) {
  return HostTensor::of<double>(std::move(dims), v).cast(DType::f32);
}

struct Run {
  std::map<std::string, HostTensor> out;
  std::map<std::string, HostTensor> grads;  // gradients of the sum of the first output, by parameter
};

inline Run run(const SourceGraph& g, const std::map<std::string, HostTensor>& feeds, bool gradients = false) {
  const ParamTable table(g);
  Graph graph;
  Builder b(graph, cpu_evaluator());
  BindOptions o;
  o.outputs = g.outputs;
  for (const auto& [name, t] : feeds) o.input_dims[name] = t.dims();
  const Bound bound = bind(g, table, o, b);
  for (const int v : g.outputs)
    graph.outputs.push_back({g.values[static_cast<size_t>(v)].name, bound.values[static_cast<size_t>(v)]});
  if (gradients) {
    std::vector<ValueId> wrt;
    for (int32_t i = 0; i < graph.n_values(); ++i) {
      if (graph.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
    }
    Autodiff ad(b, wrt);
    const ValueId y = graph.outputs[0].value;
    ad.seed(y, b.expand(b.scalar(1, b.dtype(y)), b.dims(y)));
    ad.run();
    for (const ValueId w : wrt) {
      if (const ValueId d = ad.grad(w)) graph.param_grads.push_back({graph.value(w).slot, d});
    }
  }
  std::vector<HostTensor> params;
  for (const int v : table.source_value) params.push_back(g.values[static_cast<size_t>(v)].data);
  const Interpreted r = interpret(graph, feeds, params);
  Run out;
  out.out = r.outputs;
  for (const auto& [slot, t] : r.param_grads)
    out.grads[g.values[static_cast<size_t>(table.source_value[static_cast<size_t>(slot)])].name] = t;
  return out;
}

}  // namespace amp::test
