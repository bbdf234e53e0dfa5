// Represents ONNX sequences and optionals while shapes are bound. A list is a node without a kernel whose inputs are
// the elements; other core nodes do not accept it. Operators that extract an element return the element itself, so no
// list remains in the final graph.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

ValueId make_list(Builder& b, std::vector<ValueId> items);
ValueId make_absent(Builder& b);  // returns an optional without content

// Returns the elements of a list; null if v is an ordinary value. An optional without content has no elements;
// is_absent() detects it.
const std::vector<ValueId>* list_of(const Graph& g, ValueId v);
bool is_absent(const Graph& g, ValueId v);

}  // namespace amp
