// Parses SourceGraphs from text, for tests. One statement per line:
//   input x            input ids int64        param W 4 4 = 0.5      const c = -3.4e38      const t 2 = 1 2
//   y = MatMul(x, W)   a, b = Split{axis=1}(y)   z = com.microsoft::FastGelu(y)   o = Clip(x, , hi)
//   output y
// A node is named after its first output unless it is written `name: y = Op(x)`. Attributes: integers, floats with '.',
// words, lists of integers in brackets.
#pragma once

#include <string>

#include "graph/source.h"
#include "precision/decide.h"

namespace amp::test {

SourceGraph text_graph(const std::string& text);
int node_index(const SourceGraph& g, const std::string& name);
const Decision& decision(const SourceGraph& g, const PrecisionPlan& plan, const std::string& node);
// Returns the compute types of the floating-point nodes, in order: "MatMul:fp16 Softmax:fp32".
std::string types_of(const SourceGraph& g, const PrecisionPlan& plan);
// Returns the compute types of the floating-point nodes by node name: "allow1:fp16 clr1:fp32".
std::string named_types(const SourceGraph& g, const PrecisionPlan& plan);
// plan_of() returns the plan of an op list in JSON, warned() whether one of its warnings contains this text.
PrecisionPlan plan_of(const SourceGraph& g, const std::string& list, DType low = DType::f16);
bool warned(const PrecisionPlan& plan, const std::string& text);

}  // namespace amp::test
