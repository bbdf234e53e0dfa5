// SourceGraph: the imported model in the form of the file, without protobuf. Shapes may be symbolic, operators are ONNX
// operators of the file's opset, names are the file's. Model-local functions and constant Ifs are already inlined;
// nodes are in topological order. bind() (graph/bind.h) specializes it for concrete input shapes to a Graph of core
// operators.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "graph/attrs.h"

namespace amp {

struct Dim {
  int64_t value = -1;  // >= 0: static
  std::string symbol;  // "batch_size"; empty for an unnamed dynamic dimension
};

enum class SourceKind : uint8_t {
  input,      // a graph input that the data must feed
  parameter,  // a trainable tensor (or one frozen by the user): initializer or Constant node
  constant,   // any other initializer or Constant node: not trained
  temp,       // produced by a node
};

struct SourceValue {
  std::string name;  // unique in the graph
  SourceKind kind = SourceKind::temp;
  DType dtype = DType::f32;  // declared in the file; a hint for temps
  bool dtype_known = false;
  bool rank_known = false;
  std::vector<Dim> dims;         // valid if rank_known
  HostTensor data;               // parameter, constant: the value in the file
  int producer = -1;             // temp: index of the node
  bool trainable = false;        // parameter: not frozen
  int tied_to = -1;              // parameter: index of the master, whose copy this value is; -1: none
  bool tied_transposed = false;  // the copy is the 2-D transpose; else it has the same elements, possibly in other dims
  int tied_axis = -1;            // the copy is repeated along this axis, once per row (graph/folded_rows.h); -1: once
  // a readable name from node scopes if the file's name carries no information; else empty
  std::string alias;
  std::string reason;     // why it is a trainable parameter or not
  bool replaced = false;  // parameter: surgery changed its size (a new classifier)
};

// How a node came into the graph, and whether it is exported.
enum class Place : uint8_t {
  added,     // by surgery; exported
  file,      // imported
  training,  // active only in training; in the exported file its first input replaces its output
};

struct SourceNode {
  std::string name;        // unique; generated if empty or duplicate in the file ("Add_17")
  std::string op, domain;  // domain "" is ai.onnx
  int64_t version = 0;     // the domain's imported opset
  Attrs attrs;
  std::vector<int> inputs;   // value indices; -1: omitted optional input
  std::vector<int> outputs;  // value indices; -1: omitted optional output
  Place place = Place::added;
};

struct SourceGraph {
  std::string name;
  std::vector<SourceValue> values;
  std::vector<SourceNode> nodes;
  std::vector<int> inputs, outputs;       // value indices, in the file's order
  std::map<std::string, int64_t> opsets;  // domain -> version

  int find(const std::string& value_name) const;  // index, or -1
  const SourceValue& value(int v) const { return values[static_cast<size_t>(v)]; }
  int add_value(SourceValue v);                     // name must be new
  int add_node(SourceNode n);                       // sets the producers of its outputs
  void rename(int value, const std::string& name);  // the name must be new
  std::string fresh_name(const std::string& stem) const;
  std::vector<std::vector<int>> consumers() const;  // value index -> node indices, once per use
  std::string describe_node(int node) const;        // "node '/encoder/MatMul' (MatMul, #214, opset 17)"
  // Returns the name for messages: the alias if there is one, else the name.
  const std::string& shown(int value) const {
    const SourceValue& v = values[static_cast<size_t>(value)];
    return v.alias.empty() ? v.name : v.alias;
  }

 private:
  std::map<std::string, int> by_name_;
};

}  // namespace amp
