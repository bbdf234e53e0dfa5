// ModelProto -> SourceGraph: names resolved, nodes sorted, model-local functions and constant Ifs inlined, Constant
// nodes turned into values, Identity aliases of constants removed. Every constant value is still just a constant:
// importer/discover/discover.h decides which are parameters.
//
// Exit::model: E_SSA, E_DUP_INIT, E_DANGLING, E_GRAPH_CYCLE, E_NAME, E_UTF8, E_ATTR, E_FUNC_CYCLE, E_FUNC_LIMIT,
// E_NODES, E_SUBGRAPH_DEPTH and the tensor errors of importer/read/tensor.h. Exit::unsupported: E_TYPE, all at once.
//
// An operator that ops/ does not lower but the ONNX standard defines by a function is inlined too.
//
// Graphs of If, Loop and Scan that stay are Attrs of kind SourceGraph. A value they capture is a temp without
// producer that is not among their inputs; it has the outer value's name. The outer values are inputs of the node
// behind its own, their names the attribute kCaptures (graph/bind.h). Floating tensors that the file keeps inside such
// a graph are values of the outermost one, captured like others, so that they can be trained.
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
  std::vector<int> slot_of;         // per value, as in ModelDoc
  std::vector<char> visible;        // per value
  std::vector<std::string> scopes;  // per node: module path ("encoder.layer.0.attention.self.query"), may be empty
  std::vector<std::string> notes;
  std::set<const void*> four_bits;  // elements of tensors that the file packs (importer/quantized/four_bits.h)
  std::map<int, int>
      copies;  // value -> the value that it is in the file, which may be a copy too (importer/discover/merged.h)
};

// keep_aliases: an Identity of a constant-valued floating tensor stays a value of its own, in `copies`.
Built build_source(const ModelDoc& doc, bool keep_aliases = false);

// Names of the outer values that the graph attributes of a node read.
std::vector<std::string> captures(const SourceNode& node);

}  // namespace amp
