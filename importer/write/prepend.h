// Adds the preprocessing of raw rows (importer/surgery/raw_rows.h) to a file's proto; used only by the export.
#pragma once

#include <onnx/onnx_pb.h>

#include "importer/surgery/raw_rows.h"

namespace amp {

// Throws E_RAW_ROWS (Exit::unsupported) if the opset lacks the operators.
void prepend_raw_rows(onnx::ModelProto& model, const RawRows& rows);

}  // namespace amp
