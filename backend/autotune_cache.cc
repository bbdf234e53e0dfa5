#include "backend/autotune_cache.h"

#include <cctype>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/sysinfo.h"

namespace amp {

AutotuneCache::AutotuneCache(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  path_ = cache_path(name);
}

void AutotuneCache::load() {
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) known_.emplace(line.substr(tab + 1), line.substr(0, tab));
  }
}

std::optional<std::string> AutotuneCache::find(const std::string& key) {
  if (!known_.count(key)) load();  // another process may have added the key since the last load
  const auto it = known_.find(key);
  if (it == known_.end()) return {};
  return it->second;
}

void AutotuneCache::keep(const std::string& key, const std::string& choice) {
  if (!known_.emplace(key, choice).second || path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  // Each line is one short write, so that lines of several processes do not interleave.
  std::ofstream(path_, std::ios::app) << cat(choice, '\t', key, '\n');
}

}  // namespace amp
