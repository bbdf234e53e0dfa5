#include "base/plugin_folders.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace amp {

namespace fs = std::filesystem;

std::string find_plugin_file(const std::string& name) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> folders{program, program / "../lib"};
  // A program that uses libonnx_amp.so finds the plugins next to that library. If the name of this file has no slash,
  // it is the name of a command and not a path, so the current folder must not be searched.
  Dl_info here = {};
  dladdr(reinterpret_cast<const void*>(&find_plugin_file), &here);
  if (here.dli_fname && std::strchr(here.dli_fname, '/')) folders.push_back(fs::path(here.dli_fname).parent_path());
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name, ignored)) return (folder / name).string();
  }
  return {};
}

}  // namespace amp
