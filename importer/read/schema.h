// Checks a node against the ONNX schema of its operator: number of inputs and outputs, and attributes.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/read/builder.h"

namespace amp {

// attrs: the node's attributes, with references to the calling function's attributes resolved. Fails with Exit::model
// E_ATTR. Operators without a schema are not checked. Types and ranks are checked when shapes are bound
// (graph/signature.h).
void check_schema(const onnx::NodeProto& node, const AttrTable& attrs, const Opsets& opsets);

}  // namespace amp
