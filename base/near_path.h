// Suggestions for a path that does not exist.
#pragma once

#include <string>

namespace amp {

// "did you mean 'data/train.csv'?": the entry of the path's folder with the nearest name. Empty if no name is near or
// the path exists.
std::string near_path_hint(const std::string& path);

}  // namespace amp
