// Maps data files that are too large for memory, so that the system loads their pages on access.
#pragma once

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace amp {

// Returns the contents of a file: read into memory by read_file(), or mapped if the file is larger than
// in_memory_left(). If a mapped file shrinks or becomes unreadable, the process ends with Exit::data and a message,
// because a failed page access cannot be reported as an exception.
FileBytes read_or_map(const std::string& path, Exit exit = Exit::usage);

}  // namespace amp
