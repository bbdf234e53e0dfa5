// SourceGraph: the imported model in the form of the file, without protobuf. Shapes may be symbolic, operators are ONNX
// operators of the file's opset, and names are the file's. Model-local functions and Ifs with a constant condition are
// already inlined. Nodes are in topological order. bind() (graph/bind.h) converts it to a Graph of core operators for
// concrete input shapes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "graph/attrs.h"

namespace amp {

struct Dim {
  int64_t value = -1;  // size of a static dimension; -1 for a dynamic one
  std::string symbol;  // "batch_size"; empty for an unnamed dynamic dimension
};

enum class SourceKind : uint8_t {
  input,      // an input of the graph, which the data must feed
  parameter,  // an initializer or Constant node that is trained, or that the user has frozen
  constant,   // any other initializer or Constant node
  temp,       // produced by a node
};

struct SourceValue {
  std::string name;  // unique in the graph
  SourceKind kind = SourceKind::temp;
  DType dtype = DType::f32;  // the type that the file declares; for temps only a hint
  bool dtype_known = false;
  bool rank_known = false;
  std::vector<Dim> dims;         // valid only if rank_known is true
  HostTensor data;               // parameter, constant: its value in the file
  int producer = -1;             // temp: index of the node that computes it
  bool trainable = false;        // parameter: true if it is not frozen
  int tied_to = -1;              // parameter that is a tied copy: index of its master; -1 for others
  bool tied_transposed = false;  // the copy is the 2-D transpose; else it has the same elements, maybe in other dims
  int tied_axis = -1;            // axis of repetition, one copy per row (graph/folded_rows.h); -1: not repeated
  // a readable name made from node scopes if the file's name carries no information; otherwise empty
  std::string alias;
  std::string reason;     // why the tensor is, or is not, a trainable parameter
  bool replaced = false;  // parameter: surgery changed its size (for a new classifier)
};

// Origin of a node, which decides whether the node is exported.
enum class Place : uint8_t {
  added,     // added by surgery; exported
  file,      // imported from the file
  training,  // active only in training; the exported file has the first input instead of its output
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

  int find(const std::string& value_name) const;  // returns the index, or -1
  const SourceValue& value(int v) const { return values[static_cast<size_t>(v)]; }
  int add_value(SourceValue v);                     // the value's name must be new
  int add_node(SourceNode n);                       // also makes the node the producer of its outputs
  void rename(int value, const std::string& name);  // the name must be new
  std::string fresh_name(const std::string& stem) const;
  std::vector<std::vector<int>> consumers() const;  // value index -> indices of the nodes that read it, once per use
  std::string describe_node(int node) const;        // returns "node '/encoder/MatMul' (MatMul, #214, opset 17)"
  // Returns the name for messages: the alias if there is one, else the name.
  const std::string& shown(int value) const {
    const SourceValue& v = values[static_cast<size_t>(value)];
    return v.alias.empty() ? v.name : v.alias;
  }

 private:
  std::map<std::string, int> by_name_;
};

}  // namespace amp
