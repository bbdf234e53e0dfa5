// `export_raw_rows`: builds the nodes before the model that take raw rows of a table.
#pragma once

#include "base/log.h"
#include "importer/read/import.h"
#include "importer/surgery/raw_rows.h"

namespace amp {

// Returns the nodes for the features that the model records. Throws E_FEATURES_MISSING (Exit::usage) if it records
// none, and E_RAW_ROWS (Exit::unsupported) for a scaling that ONNX has no nodes for.
RawRows raw_rows_of(const Imported& model, const Log& log);

}  // namespace amp
