// SourceGraph: the imported model as its author wrote it, free of protobuf. Shapes may be symbolic, operators are
// ONNX operators of their own version, names are the file's. Model-local functions and constant Ifs are already
// inlined, nodes are in topological order. It is made once; bind() (graph/bind.h) specialises it for concrete
// input shapes into a Graph of core operators.
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
  std::string symbol;  // "batch_size"; empty for a nameless dynamic dimension
};

enum class SourceKind : uint8_t {
  input,      // a graph input that the data must feed
  parameter,  // a trainable tensor (or one frozen by the user): initializer or Constant node
  constant,   // any other initializer or Constant node: never changes
  temp,       // produced by a node
};

struct SourceValue {
  std::string name;  // unique in the graph
  SourceKind kind = SourceKind::temp;
  DType dtype = DType::f32;  // as the file declares it; a hint for temps
  bool dtype_known = false;
  bool rank_known = false;
  std::vector<Dim> dims;         // meaningful when rank_known
  HostTensor data;               // parameter, constant: the value in the file
  int producer = -1;             // temp: index of the node
  bool trainable = false;        // parameter: not frozen
  int tied_to = -1;              // parameter: index of the value that holds the master (this one is a copy of it)
  bool tied_transposed = false;  // ... as its 2-D transpose; else the same elements, in other dims when those differ
  int tied_axis = -1;            // ... repeated along this axis, rows of a batch (graph/folded_rows.h); -1: once
  std::string alias;             // a readable name from node scopes when the file's own was lost; else empty
  std::string reason;            // why it is, or is not, a trainable parameter
  bool replaced = false;         // parameter: surgery gave it another size than the file's (a new classifier)
};

enum class Place : uint8_t {
  added,     // by surgery: exported too
  file,      // imported
  training,  // acts while training only: in the exported file its first input stands for its output
};

struct SourceNode {
  std::string name;        // may be empty or repeated in the file; here unique: "Add_17" when empty
  std::string op, domain;  // domain "" is ai.onnx
  int64_t version = 0;     // the domain's imported opset
  Attrs attrs;
  std::vector<int> inputs;   // value indices; -1: optional input left out
  std::vector<int> outputs;  // value indices; -1: optional output left out
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
  std::vector<std::vector<int>> consumers() const;  // value index -> node indices, each once per use
  std::string describe_node(int node) const;        // "node '/encoder/MatMul' (MatMul, #214, opset 17)"
  // A name to show people: the alias when there is one.
  const std::string& shown(int value) const {
    const SourceValue& v = values[static_cast<size_t>(value)];
    return v.alias.empty() ? v.name : v.alias;
  }

 private:
  std::map<std::string, int> by_name_;
};

}  // namespace amp
