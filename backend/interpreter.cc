#include "backend/interpreter.h"

#include "backend/kernel.h"
#include "base/error.h"

namespace amp {

static std::vector<HostTensor> run(const Node& node, const Graph* graph, const std::vector<HostTensor>& inputs,
                                   const std::vector<std::pair<DType, Dims>>& outputs) {
  const PrepareKernel prepare = find_kernel(DeviceKind::cpu, node.op->name);
  if (!prepare) bug(cat("core operator ", node.op->name, " has no CPU kernel"));
  KernelArgs args{node, {}, {}, nullptr, nullptr};
  for (const HostTensor& t : inputs) {
    args.in.push_back(t ? Tensor{const_cast<void*>(t.data()), t.dtype(), t.dims()} : Tensor{});
  }
  std::vector<HostTensor> out;
  for (const auto& [dtype, dims] : outputs) {
    out.push_back(HostTensor::empty(dtype, dims));
    args.out.push_back(Tensor{out.back().mutable_data(), dtype, dims});
  }
  HostTensor workspace;
  if (node.op->workspace && graph) {
    workspace = HostTensor::empty(DType::u8, {node.op->workspace(*graph, node)});
    args.workspace = workspace.mutable_data();
  }
  static const RunState state;
  args.state = &state;
  prepare(args)();
  return out;
}

std::vector<HostTensor> evaluate_node(const OpDef& op, const std::vector<HostTensor>& inputs, const Attrs& attrs,
                                      const std::vector<std::pair<DType, Dims>>& outputs) {
  // The node is put into a graph, because OpDef::workspace takes a graph and a node.
  Graph g;
  std::vector<ValueId> in;
  for (const HostTensor& t : inputs) in.push_back(t ? g.add_constant(t) : ValueId{});
  const NodeId n = g.add_node(op, in, attrs, {});
  return run(g.node(n), &g, inputs, outputs);
}

Evaluator cpu_evaluator() { return evaluate_node; }

Interpreted interpret(const Graph& g, const std::map<std::string, HostTensor>& inputs,
                      const std::vector<HostTensor>& params) {
  std::vector<HostTensor> values(static_cast<size_t>(g.n_values()));
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    HostTensor& t = values[static_cast<size_t>(i)];
    if (v.kind == ValueKind::constant) t = v.constant;
    if (v.kind == ValueKind::param) t = params.at(static_cast<size_t>(v.slot)).cast(v.dtype);
    if (v.kind == ValueKind::input) {
      const auto it = inputs.find(v.name);
      if (it == inputs.end()) bug(cat("interpret: no input '", v.name, "'"));
      t = it->second.cast(v.dtype);
    }
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    std::vector<HostTensor> in;
    for (const ValueId v : node.in) in.push_back(v ? values[static_cast<size_t>(v.index)] : HostTensor());
    std::vector<std::pair<DType, Dims>> outputs;
    for (const ValueId v : node.out) outputs.emplace_back(g.value(v).dtype, g.value(v).dims);
    std::vector<HostTensor> out = run(node, &g, in, outputs);
    for (size_t i = 0; i < out.size(); ++i) values[static_cast<size_t>(node.out[i].index)] = std::move(out[i]);
  }
  Interpreted r;
  for (const auto& o : g.outputs) r.outputs[o.name] = values[static_cast<size_t>(o.value.index)];
  for (const auto& p : g.param_grads) r.param_grads[p.slot] = values[static_cast<size_t>(p.value.index)];
  return r;
}

}  // namespace amp
