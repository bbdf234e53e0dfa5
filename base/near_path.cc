#include "base/near_path.h"

#include <filesystem>
#include <vector>

#include "base/cat.h"
#include "base/text.h"

namespace amp {

std::string near_path_hint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path wanted(path), folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  if (path.empty() || fs::exists(wanted, failed)) return {};
  std::vector<std::string> names;
  constexpr size_t kMost = 10'000;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end && names.size() < kMost;
       at.increment(failed))
    names.push_back(at->path().filename().string());
  const std::string near = nearest(wanted.filename().string(), names);
  if (near.empty()) return {};
  return cat("did you mean '", printable(wanted.has_parent_path() ? (folder / near).string() : near), "'?");
}

}  // namespace amp
