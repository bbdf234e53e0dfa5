// --export_raw_rows: nodes in front of the model that take raw rows of a table.
#pragma once

#include "base/log.h"
#include "importer/read/import.h"
#include "importer/surgery/raw_rows.h"

namespace amp {

// Follows the features that the model records. Exit::usage E_FEATURES: it records none. Exit::unsupported E_RAW_ROWS: a
// scaling that ONNX has no nodes for.
RawRows raw_rows_of(const Imported& model, const Log& log);

}  // namespace amp
