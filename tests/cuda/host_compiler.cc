#include "tests/cuda/host_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "backend/cuda/emulator.h"
#include "base/error.h"
#include "tests/support.h"

namespace amp::test {

bool HostCompiler::present() {
  static const bool found = std::system(("command -v " + host_compiler() + " > /dev/null 2>&1").c_str()) == 0 &&
                            std::filesystem::exists(source_root() + "/base/dtype.h");
  return found;
}

HostCompiler::Entry HostCompiler::entry(const std::string& name) {
  if (const auto it = entries_.find(name); it != entries_.end()) return it->second;
  const std::string base = folder_ / std::to_string(files_++), source = base + ".cc", object = base + ".so";
  std::ofstream(source) << cuda::whole_text(waiting_);
  // Symbols of the emulator and of base are this program's.
  const std::string command = cat(host_compiler(), " -std=c++20 -O1 -fPIC -shared -w -I'", source_root(), "' -o ",
                                  object, ' ', source, " 2> ", base, ".log");
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(base + ".log");
    bug(cat("the generated source is refused:\n",
            std::string((std::istreambuf_iterator<char>(log)), {}).substr(0, 4000)));
  }
  void* const library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) bug(dlerror());
  for (const cuda::GeneratedSource& s : waiting_)
    entries_[s.name] = reinterpret_cast<Entry>(dlsym(library, s.name.c_str()));
  waiting_.clear();
  const Entry e = entries_[name];
  if (!e) bug("no entry " + name);
  return e;
}

cuda::GeneratedKernel HostCompiler::operator()(const cuda::GeneratedSource& s) {
  const bool known = entries_.count(s.name) != 0 ||
                     std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& w) { return w.name == s.name; });
  if (!known) waiting_.push_back(s);
  return [this, name = s.name, expected = s.words, cooperative = s.cooperative](const cuda::Grid& g,
                                                                                const std::vector<uint64_t>& words) {
    check(words.size() == expected, "a generated kernel with other arguments");
    const Entry e = entry(name);
    cuda::emulator::run({g.blocks, g.threads, g.shared, cooperative}, [&] { e(words.data()); });
    return true;
  };
}

}  // namespace amp::test
