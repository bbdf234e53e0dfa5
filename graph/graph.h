// Graph: a model bound to concrete shapes, made of core operators. Values and nodes live in append-only arenas and are
// named by typed ids; a node's inputs always exist before it, so node order is a topological order by construction.
#pragma once

#include <cstdint>
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
  input,     // fed at run time by name
  param,     // a parameter, by slot in the parameter table
  constant,  // known now
  temp,      // computed by a node
};

struct Value {
  ValueKind kind = ValueKind::temp;
  DType dtype = DType::f32;  // storage type
  Dims dims;
  NodeId producer;      // temp
  int slot = -1;        // param
  HostTensor constant;  // constant
  std::string name;     // input; else for people, may be empty
};

// Why a node exists. Every error, dump and profile row prints it.
struct Origin {
  int source_node = -1;        // index in the SourceGraph, -1: none
  const char* role = "";       // "", "gradient of", "loss", "cast for", ...
  DType compute = DType::f32;  // the type the precision plan gave the source node; a gradient has its forward node's
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> in, out;
  Attrs attrs;
  Origin origin;
};

class Graph {
 public:
  // Out of line, as Attrs' are.
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  ValueId add_input(std::string name, DType dtype, Dims dims);
  ValueId add_param(int slot, std::string name, DType dtype, Dims dims);
  ValueId add_constant(HostTensor t);
  // Infers the outputs; a rule's error names the operator and the input shapes.
  NodeId add_node(const OpDef& op, std::vector<ValueId> in, Attrs attrs, Origin origin);

  // A copy of a node of another graph: no inference, outputs as given.
  NodeId add_copy(const Node& like, std::vector<ValueId> in, const std::vector<std::pair<DType, Dims>>& outputs);

  const Value& value(ValueId v) const { return values_[static_cast<size_t>(v.index)]; }
  const Node& node(NodeId n) const { return nodes_[static_cast<size_t>(n.index)]; }
  int32_t n_values() const { return static_cast<int32_t>(values_.size()); }
  int32_t n_nodes() const { return static_cast<int32_t>(nodes_.size()); }
  // A pass may store a floating value in another floating type.
  void set_dtype(ValueId v, DType t) { values_[static_cast<size_t>(v.index)].dtype = t; }
  void set_name(ValueId v, std::string name) { values_[static_cast<size_t>(v.index)].name = std::move(name); }
  ValueId input(const std::string& name) const;  // invalid when there is none

  struct Output {
    std::string name;
    ValueId value;
  };
  struct ParamGrad {
    int slot;
    ValueId value;
  };
  std::vector<Output> outputs;         // what a run must leave behind
  std::vector<ParamGrad> param_grads;  // gradients to write or add into the gradient arena

  std::string dump() const;  // one line a node

 private:
  ValueId push(Value v);
  std::vector<Value> values_;
  std::vector<Node> nodes_;
};

}  // namespace amp
