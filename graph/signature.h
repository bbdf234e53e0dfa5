// Input signatures of operators: the number of inputs, which of them are optional, their types and ranks. They are
// checked before an operator's rule reads an input, so the rule may index dims up to the declared rank.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace amp {

// The signature has one word per input, which consists of a class of types, ranks, and a suffix:
//   f floating-point, i integer, n floating-point or integer, b Boolean, a any,
//   s the type of the first input of class f, n or a (floating-point types may differ in width, as plans store them)
//   3 that rank, 3+ at least that rank, 3-5 a range; without number: any rank
//   ? optional;  * any number of these inputs, last word only
// For example, "f3 f3 f2? i1?" means an input, weights, and optionally biases and lengths.
struct SignatureRow {
  std::string_view takes;
  std::initializer_list<std::string_view> operators;  // names; an ONNX operator outside ai.onnx is "domain::Name"
};

struct RegisterSignatures {
  enum Table { onnx, core };
  RegisterSignatures(Table table, std::initializer_list<SignatureRow> rows);
};

// Checks further requirements of a core operator on dims, attributes and constant indices, so that kernels cannot
// access memory out of bounds. It is called before inference, with inputs that match the signature.
using InputCheck = void (*)(const InferCtx&);
struct RegisterChecks {
  RegisterChecks(std::initializer_list<std::pair<std::string_view, InputCheck>> rows);
};
void check_node(std::string_view op, const InferCtx& node);

bool has_signature(RegisterSignatures::Table table, std::string_view domain, std::string_view op);

// Checks the inputs of a node. Throws Exit::model, naming the input and the requirement. An operator without a
// SignatureRow is not checked.
void check_inputs(RegisterSignatures::Table table, std::string_view domain, std::string_view op, const Graph& g,
                  const std::vector<ValueId>& in);

}  // namespace amp
