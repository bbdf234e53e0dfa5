// Raw rows (importer/surgery/raw_rows.h) in a file's proto: for the export alone.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/surgery/raw_rows.h"

namespace amp {

// Exit::unsupported, E_RAW_ROWS, for an opset without the operators.
void prepend_raw_rows(onnx::ModelProto& model, const RawRows& rows);

}  // namespace amp
