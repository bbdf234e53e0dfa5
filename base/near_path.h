// Suggestions for a path that does not exist.
#pragma once

#include <string>

namespace amp {

// Returns "did you mean 'data/train.csv'?" with the entry of the path's folder whose name is nearest. Empty if no name
// is near or the path exists.
std::string near_path_hint(const std::string& path);

}  // namespace amp
