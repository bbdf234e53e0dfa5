// Builds small SourceGraphs for tests of bind().
#pragma once

#include <string>
#include <vector>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/bind.h"
#include "graph/source.h"

namespace amp::test {

struct SourceNet {
  SourceGraph g;

  int input(const std::string& name, DType type = DType::f32) {
    const int v = value(name, SourceKind::input, type);
    g.inputs.push_back(v);
    return v;
  }
  int param(const std::string& name, Dims dims, float fill = 0.5f) {
    const int v = value(name, SourceKind::parameter, DType::f32);
    g.values[static_cast<size_t>(v)].data =
        HostTensor::of<float>(dims, std::vector<float>(static_cast<size_t>(numel(dims)), fill));
    g.values[static_cast<size_t>(v)].trainable = true;
    return v;
  }
  int constant(const std::string& name, HostTensor data) {
    const int v = value(name, SourceKind::constant, data.dtype());
    g.values[static_cast<size_t>(v)].data = std::move(data);
    return v;
  }
  int ints(const std::string& name, const std::vector<int64_t>& v) {
    return constant(name, HostTensor::of<int64_t>({static_cast<int64_t>(v.size())}, v));
  }

  // Adds a node with the name of its operator and outputs "<op>_<node>", "<op>_<node>.1", ...
  std::vector<int> nodes(const std::string& op, std::vector<int> in, Attrs attrs = {}, size_t outputs = 1,
                         int64_t version = 17) {
    SourceNode n;
    n.name = "/net/" + op;
    n.op = op;
    n.version = version;
    n.attrs = std::move(attrs);
    n.inputs = std::move(in);
    for (size_t i = 0; i < outputs; ++i) {
      n.outputs.push_back(value(cat(op, '_', g.nodes.size(), i ? cat('.', i) : ""), SourceKind::temp, DType::f32));
    }
    const std::vector<int> out = n.outputs;
    g.add_node(std::move(n));
    return out;
  }
  int node(const std::string& op, std::vector<int> in, Attrs attrs = {}, int64_t version = 17) {
    return nodes(op, std::move(in), std::move(attrs), 1, version)[0];
  }

 private:
  int value(const std::string& name, SourceKind kind, DType type) {
    SourceValue v;
    v.name = name;
    v.kind = kind;
    v.dtype = type;
    v.dtype_known = true;
    return g.add_value(std::move(v));
  }
};

// Binds the graph to input shapes. Its outputs are "y0", "y1", ...
struct BoundNet {
  BoundNet(const SourceNet& net, std::map<std::string, Dims> dims, const std::vector<int>& outputs)
      : params(net.g), builder(graph, cpu_evaluator()) {
    BindOptions o;
    o.input_dims = std::move(dims);
    o.outputs = outputs;
    bound = bind(net.g, params, o, builder);
    for (size_t i = 0; i < outputs.size(); ++i)
      graph.outputs.push_back({cat('y', i), bound.values[static_cast<size_t>(outputs[i])]});
  }
  Graph graph;
  ParamTable params;
  Builder builder;
  Bound bound;
};

}  // namespace amp::test
