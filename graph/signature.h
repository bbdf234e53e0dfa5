// What operators take, checked before any rule reads an input: how many, which may be left out, of which types and
// ranks. A rule may then index dims up to the declared rank without asking.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace amp {

// One word an input: a class of types, the ranks, and marks behind.
//   f floats, i integers, n floats or integers, b booleans, a anything, s the type of the first input that is f, n or a
//   (floats may differ in width: a precision plan stores them so)
//   3 a rank, 3+ at least, 3-5 both; nothing: any
//   ? may be left out;  * any number of these, the last word only
// "f3 f3 f2? i1?" is an input, weights, and perhaps biases and lengths.
struct SignatureRow {
  std::string_view takes;
  std::initializer_list<std::string_view> operators;  // ONNX: "domain::Name" outside ai.onnx
};

struct RegisterSignatures {
  enum Table { onnx, core };
  RegisterSignatures(Table table, std::initializer_list<SignatureRow> rows);
};

// What a core operator needs of dims, attributes and constant indices beyond that: called with inputs that fit the
// signature, before inference, so that no kernel is prepared for what it would read or write out of bounds.
using InputCheck = void (*)(const InferCtx&);
struct RegisterChecks {
  RegisterChecks(std::initializer_list<std::pair<std::string_view, InputCheck>> rows);
};
void check_node(std::string_view op, const InferCtx& node);

bool has_signature(RegisterSignatures::Table table, std::string_view domain, std::string_view op);

// Exit::model naming the input and what it should be; an operator without a row is not checked.
void check_inputs(RegisterSignatures::Table table, std::string_view domain, std::string_view op, const Graph& g,
                  const std::vector<ValueId>& in);

}  // namespace amp
