// Editing of a SourceGraph, used for heads, dropout and adapters. New nodes are appended; after an edit, sort_nodes()
// moves each before the first node that reads it.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

class GraphEditor {
 public:
  // place: the Place of nodes that the editor adds.
  explicit GraphEditor(SourceGraph& g, Place place = Place::added);

  SourceGraph& graph;
  int64_t version() const { return version_; }  // opset version of the ai.onnx domain

  int constant(const std::string& name, HostTensor t);
  int parameter(const std::string& name, HostTensor t, const std::string& reason);  // adds a trainable parameter
  // Adds a node with one output of type t, named `name` (made unique); the node's name is "/name". Returns the output.
  int node(const std::string& op, const std::string& name, std::vector<int> in, Attrs attrs = {}, DType t = DType::f32);

  int cast(const std::string& name, int x, DType to);
  // The next functions write axes as an attribute or as an input, depending on the operator's version.
  int unsqueeze(const std::string& name, int x, int64_t axis, DType t = DType::f32);
  int reduce_sum(const std::string& name, int x, int64_t axis);                       // sets keepdims to 0
  int reduce_mean(const std::string& name, int x, const std::vector<int64_t>& axes);  // sets keepdims to 0

  // Connects all readers of `from`, except node `except`, to `to`. `to` also replaces `from` among the graph outputs
  // and takes its name.
  void replace(int from, int to, int except);

 private:
  int value(const std::string& name, SourceKind kind, DType t, HostTensor data = {});
  Place place_;
  int64_t version_;
};

void sort_nodes(SourceGraph& g);

// True for views that keep all elements: Identity, Cast, Reshape, Flatten, Squeeze, Unsqueeze, and Transpose if
// `transposes`.
bool is_plain_view(const SourceNode& n, bool transposes);

// Returns per value: 1 if it depends on one of `from`.
std::vector<char> downstream_of(const SourceGraph& g, const std::vector<int>& from);
// Returns per value: 1 if one of `to` depends on it.
std::vector<char> upstream_of(const SourceGraph& g, const std::vector<int>& to);

// Both functions draw from Philox with the given stream: Normal(0, deviation) by Box-Muller, and Uniform(-bound,
// bound).
HostTensor normal_tensor(Dims dims, double deviation, uint64_t seed, uint64_t stream);
HostTensor uniform_tensor(Dims dims, double bound, uint64_t seed, uint64_t stream);

uint32_t name_hash(const std::string& name);  // FNV-1a, for streams and dropout sites

}  // namespace amp
