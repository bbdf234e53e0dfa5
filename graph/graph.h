// Graph: a model bound to concrete shapes, made of core operators. Values and nodes are stored in append-only arenas
// and addressed by typed ids. A node's inputs must exist before it, so node order is a topological order.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "graph/attrs.h"

namespace amp {

struct OpDef;

struct ValueId {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
  auto operator<=>(const ValueId&) const = default;
};
struct NodeId {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
  auto operator<=>(const NodeId&) const = default;
};

enum class ValueKind : uint8_t {
  input,     // fed by name when the graph runs
  param,     // a parameter, identified by its slot in the parameter table
  constant,  // known when the graph is built
  temp,      // computed by a node
};

struct Value {
  ValueKind kind = ValueKind::temp;
  DType dtype = DType::f32;  // the type in which the value is stored
  Dims dims;
  NodeId producer;      // the node that computes a temp
  int slot = -1;        // slot of a param in the parameter table
  HostTensor constant;  // content of a constant
  std::string name;     // name of an input; of other values, a label for messages, which may be empty
};

// Provenance of a node, which errors, dumps and profiles print.
struct Origin {
  int source_node = -1;   // index of the node in the SourceGraph from which it comes; -1: none
  const char* role = "";  // role of the node: "", "gradient of", "loss", "cast for", ...
  // The source node's compute type in the precision plan; a gradient has the compute type of its forward node.
  DType compute = DType::f32;
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> in, out;
  Attrs attrs;
  Origin origin;
};

class Graph {
 public:
  // The special members are defined in graph.cc, so that other object files do not contain their code (see Attrs).
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  ValueId add_input(std::string name, DType dtype, Dims dims);
  ValueId add_param(int slot, std::string name, DType dtype, Dims dims);
  ValueId add_constant(HostTensor t);
  // Runs shape inference; its errors name the operator and the input shapes.
  NodeId add_node(const OpDef& op, std::vector<ValueId> in, Attrs attrs, Origin origin);

  // Copies a node of another graph without shape inference; `outputs` gives the types and shapes of its outputs.
  NodeId add_copy(const Node& like, std::vector<ValueId> in, const std::vector<std::pair<DType, Dims>>& outputs);

  const Value& value(ValueId v) const { return values_[static_cast<size_t>(v.index)]; }
  const Node& node(NodeId n) const { return nodes_[static_cast<size_t>(n.index)]; }
  int32_t n_values() const { return static_cast<int32_t>(values_.size()); }
  int32_t n_nodes() const { return static_cast<int32_t>(nodes_.size()); }
  // Changes the type in which a floating-point value is stored to another floating-point type; used by passes.
  void set_dtype(ValueId v, DType t) { values_[static_cast<size_t>(v.index)].dtype = t; }
  // Replaces the content of a constant by an equal tensor.
  void set_constant(ValueId v, HostTensor t) { values_[static_cast<size_t>(v.index)].constant = std::move(t); }
  void set_name(ValueId v, std::string name) { values_[static_cast<size_t>(v.index)].name = std::move(name); }
  ValueId input(const std::string& name) const;  // invalid if there is no such input

  struct Output {
    std::string name;
    ValueId value;
  };
  struct ParamGrad {
    int slot;
    ValueId value;
  };
  std::vector<Output> outputs;         // values that a run must produce
  std::vector<ParamGrad> param_grads;  // gradients that a run writes to the gradient arena or adds to it

  std::string dump() const;  // returns a text with one line per node

 private:
  ValueId push(Value v);
  // Elements keep their addresses: references to them stay valid while nodes are added.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
};

}  // namespace amp
