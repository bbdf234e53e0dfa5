// Several values as one while shapes are bound: ONNX's sequences and optionals. A list is a node that nothing computes
// and no other core node takes; what stands where an element is taken out is the element itself, so that none is left
// in the end.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

ValueId make_list(Builder& b, std::vector<ValueId> items);
ValueId make_absent(Builder& b);  // an optional without content

// The items, or null when v is an ordinary value; none for an optional without content, which is_absent() tells apart.
const std::vector<ValueId>* list_of(const Graph& g, ValueId v);
bool is_absent(const Graph& g, ValueId v);

}  // namespace amp
