// Suggests a similar path if a path does not exist.
#pragma once

#include <string>

namespace amp {

// Returns "did you mean 'data/train.csv'?", where the file is the entry of the path's folder with the nearest name.
// Returns an empty text if no name is near or the path exists.
std::string near_path_hint(const std::string& path);

}  // namespace amp
