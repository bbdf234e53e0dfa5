// Net builds a model layer by layer. Each layer has the name of the original framework's module, such as
// "bert.encoder.layer.0.attention.self.query". Its weights become initializers "NAME.weight" and "NAME.bias", its
// nodes are named "/bert/encoder/layer.0/.../MatMul". Operators are those of opset 17.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "importer/surgery/edit.h"
#include "models/weights.h"

namespace amp {

// A value of the net: its index in the SourceGraph.
using NetValue = int;

class Net {
 public:
  Net(std::string name, WeightSource& weights);

  // Adds a graph input; all inputs must be added before other values.
  NetValue input(const std::string& name, DType type, std::vector<Dim> dims);
  void output(NetValue v, const std::string& name, std::vector<Dim> dims);

  // Adds a node "MODULE/OP" with the output "/MODULE/OP_output_0", and returns that output. t: the output's type.
  NetValue op(const std::string& type, const std::string& module, std::vector<NetValue> in, Attrs attrs = {},
              DType t = DType::f32);
  NetValue weight(const std::string& name, const Dims& dims, const Init& init);
  NetValue ints(const std::string& module, const std::vector<int64_t>& values);   // returns a constant (N)
  NetValue integer(const std::string& module, int64_t value);                     // returns a scalar
  NetValue number(const std::string& module, double value);                       // returns a scalar in fp32
  NetValue numbers(const std::string& module, const std::vector<float>& values);  // returns a constant (N) in fp32

  // torch.nn.Linear: x (..., in) -> (..., out), weight (out, in).
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out, const Init& w, const Init& b);
  NetValue linear_without_bias(NetValue x, const std::string& module, int64_t in, int64_t out, const Init& w);
  // torch.nn.Embedding: weight (rows, width), ids (...) -> (..., width).
  NetValue embedding(NetValue ids, const std::string& module, int64_t rows, int64_t width, const Init& w);
  // torch.nn.LayerNorm over the last axis.
  NetValue layer_norm(NetValue x, const std::string& module, int64_t width, double epsilon);
  NetValue layer_norm_without_bias(NetValue x, const std::string& module, int64_t width, double epsilon);
  // Applies "gelu" (by erf), "gelu_new", "gelu_pytorch_tanh" or "gelu_fast" (by tanh), "relu", "sigmoid", "silu" or
  // "swish", "tanh", or "quick_gelu". Throws E_CONFIG (Exit::unsupported) for another name.
  NetValue activation(NetValue x, const std::string& name, const std::string& module);

  // dims: as in ONNX Reshape, 0 keeps a dim and -1 is inferred.
  NetValue reshape(NetValue x, const std::string& module, const std::vector<int64_t>& dims);
  NetValue transpose(NetValue x, const std::string& module, const std::vector<int64_t>& perm);
  NetValue unsqueeze(NetValue x, const std::string& module, const std::vector<int64_t>& axes, DType t = DType::f32);
  NetValue gather(NetValue x, const std::string& module, int64_t index, int64_t axis, DType t = DType::f32);
  NetValue cast(NetValue x, const std::string& module, DType to);
  NetValue add(NetValue a, NetValue b, const std::string& module, DType t = DType::f32) {
    return op("Add", module, {a, b}, {}, t);
  }

  const SourceGraph& graph() const { return graph_; }
  WeightSource& weights() { return weights_; }

 private:
  SourceGraph graph_;
  GraphEditor editor_;
  WeightSource& weights_;
  std::map<std::string, NetValue> made_;  // name of a weight -> its value
  std::set<std::string> taken_;           // names of nodes that are in use
};

}  // namespace amp
