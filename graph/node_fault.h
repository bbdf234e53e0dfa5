// What is thrown while a node of the user's file is worked on, as an error of that node.
#pragma once

#include <string_view>

#include "base/error.h"

namespace amp {

// In a catch block. A check of our own that fails here was most likely made to fail by the file: exit 4, naming the
// operator and the check, so that a mistake of ours can be told and reported. No memory is thrown on.
Error node_fault(std::string_view op);

}  // namespace amp
