// Topological order of the nodes of a graph or function body. A sorted file keeps its order.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

namespace amp {

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Returns node indices, producers before consumers, ties in file order. Throws Exit::model errors: E_SSA (two producers
// of a name), E_GRAPH_CYCLE (with the path), E_SUBGRAPH_DEPTH.
std::vector<int> topological_order(const NodeProtos& nodes, bool* was_sorted = nullptr);

// Returns the names that the graph attributes of a node read from the enclosing graphs.
std::set<std::string> captured_names(const onnx::NodeProto& node);

std::string describe(const onnx::NodeProto& node, int index);  // such as "node '/a/MatMul' (MatMul, #3)"

}  // namespace amp
