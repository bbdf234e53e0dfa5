// Adds the preprocessing of raw rows (importer/surgery/raw_rows.h) to a file's proto; used only by the export.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/surgery/raw_rows.h"

namespace amp {

// Errors: Exit::unsupported E_RAW_ROWS for an opset without the operators.
void prepend_raw_rows(onnx::ModelProto& model, const RawRows& rows);

}  // namespace amp
