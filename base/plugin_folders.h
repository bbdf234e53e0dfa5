// Finds the plugins for CUDA and MPI, which are installed next to the program or the shared library.
#pragma once

#include <string>

namespace amp {

// Returns the path of a plugin, or an empty string if there is none. Searches the folder of the program, its ../lib,
// and the folder of the shared library that contains this code.
std::string find_plugin_file(const std::string& name);

}  // namespace amp
