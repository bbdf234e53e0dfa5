// ONNX sequences and optionals while shapes are bound: several values in one. A list is a node without kernel that
// other core nodes do not accept. Operators that extract an element return the element itself, so no list remains in
// the final graph.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

ValueId make_list(Builder& b, std::vector<ValueId> items);
ValueId make_absent(Builder& b);  // an optional without content

// The items of a list; null if v is an ordinary value. Empty for an optional without content (see is_absent()).
const std::vector<ValueId>* list_of(const Graph& g, ValueId v);
bool is_absent(const Graph& g, ValueId v);

}  // namespace amp
