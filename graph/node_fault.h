// Converts exceptions of a rule into errors of the node.
#pragma once

#include <string_view>

#include "base/error.h"

namespace amp {

// Call it in a catch block. A failed internal check is reported as unsupported (exit code 4) with operator and check,
// because the user's file most likely caused it. std::bad_alloc is rethrown.
Error node_fault(std::string_view op);

}  // namespace amp
