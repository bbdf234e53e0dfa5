// Converts exceptions that an operator's rule throws into errors of the node.
#pragma once

#include <string_view>

#include "base/error.h"

namespace amp {

// Converts the exception of the current catch block into an Error. A failed internal check becomes Exit::unsupported
// with the operator and the check, because the user's file most likely caused it. std::bad_alloc is rethrown.
Error node_fault(std::string_view op);

}  // namespace amp
