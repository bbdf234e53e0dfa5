// A model that takes a table's raw rows: what --export_raw_rows puts in front of it.
#pragma once

#include "base/log.h"
#include "importer/read/import.h"
#include "importer/surgery/raw_rows.h"

namespace amp {

// By the features that the model records. Exit::usage E_FEATURES when it records none; Exit::unsupported E_RAW_ROWS for
// what ONNX has no nodes for.
RawRows raw_rows_of(const Imported& model, const Log& log);

}  // namespace amp
