// Converts an onnx::ModelProto to a SourceGraph. Names are resolved and nodes sorted. Model-local functions and Ifs
// with a constant condition are inlined. So are operators that ops/ does not lower but that the ONNX standard defines
// by a function. Constant nodes become values; Identity aliases of constants are removed. No value is a parameter yet:
// importer/discover/discover.h decides which constants become parameters.
//
// If, Loop and Scan that remain hold their graphs as attributes of kind SourceGraph. In such a graph a captured value
// is a value of kind temp without producer that is not among the graph's inputs; it has the outer value's name. The
// outer values are appended to the node's inputs, and their names are the attribute kCaptures (graph/bind.h).
// Floating-point tensors that the file stores inside such a graph become values of the top-level graph and are captured
// like others, so that they can be trained.
//
// Throws E_SSA, E_DUP_INIT, E_DANGLING, E_GRAPH_CYCLE, E_NAME, E_UTF8, E_ATTR, E_FUNC_CYCLE, E_FUNC_LIMIT, E_NODES,
// E_SUBGRAPH_DEPTH (Exit::model) and the tensor errors of importer/read/tensor.h. Throws one E_TYPE (Exit::unsupported)
// that lists all values of unsupported types.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/read/doc.h"

namespace amp {

struct Built {
  SourceGraph graph;
  std::vector<int> slot_of;         // one per value; see ModelDoc
  std::vector<char> visible;        // one per value; see ModelDoc
  std::vector<std::string> scopes;  // per node: module path ("encoder.layer.0.attention.self.query"), may be empty
  std::vector<std::string> notes;
  // payload pointers of tensors that the file stores as 4-bit integers (importer/quantized/four_bits.h)
  std::set<const void*> four_bits;
  // copy -> the value of the file that it copies, which may be a copy itself (importer/discover/merged.h)
  std::map<int, int> copies;
};

// Converts the file. With keep_aliases, an Identity of a constant-valued floating-point tensor becomes a separate
// constant, listed in `copies`.
Built build_source(const ModelDoc& doc, bool keep_aliases = false);

// Returns the names of the outer values that the graph attributes of a node read.
std::vector<std::string> captures(const SourceNode& node);

}  // namespace amp
