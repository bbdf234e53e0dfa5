// A node against what the ONNX standard says of its operator: how many inputs and outputs, which attributes.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/read/builder.h"

namespace amp {

// attrs: the node's, those of the calling function put in. Exit::model; operators that the standard does not know are
// not checked. Types and ranks are known when shapes are bound: graph/signature.h.
void check_schema(const onnx::NodeProto& node, const AttrTable& attrs, const Opsets& opsets);

}  // namespace amp
