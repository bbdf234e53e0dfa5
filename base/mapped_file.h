// Maps data files that are too large for memory; the system reads their pages on access.
#pragma once

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace amp {

// A whole file: read into memory (read_file), or mapped if it is larger than in_memory_left(). If a mapped file shrinks
// or becomes unreadable, the process ends with Exit::data and a message, because a failed page access cannot be handled
// in place.
FileBytes read_or_map(const std::string& path, Exit exit = Exit::usage);

}  // namespace amp
