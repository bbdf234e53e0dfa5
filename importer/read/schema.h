// Checks a node against the ONNX schema of its operator: number of inputs and outputs, and attributes.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/read/builder.h"

namespace amp {

// Throws E_ATTR (Exit::model) if the node does not fit its schema. Operators without a schema are not checked. attrs:
// the node's attributes, with references to the calling function's attributes resolved. Types and ranks are checked
// later, when shapes are bound (graph/signature.h).
void check_schema(const onnx::NodeProto& node, const AttrTable& attrs, const Opsets& opsets);

}  // namespace amp
