// Files of data that are too large to be read into memory are mapped: the system reads their pages when they are looked
// at.
#pragma once

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace amp {

// A whole file: read into memory (read_file), or mapped where it is larger than in_memory_left(). A mapped file that
// becomes shorter, or that cannot be read any more, ends the process with Exit::data and a message: there is no way
// back from a page that is not there.
FileBytes read_or_map(const std::string& path, Exit exit = Exit::usage);

}  // namespace amp
