// Loads libonnx_amp_cuda.so with dlopen and checks its ABI version. Each failure becomes E_DEVICE_UNAVAILABLE with a
// reason.

#include "backend/plugin.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/error.h"
#include "base/plugin_folders.h"
#include "base/text.h"

namespace amp {

[[noreturn]] static void unavailable(const std::string& why) {
  fail(Exit::usage, "E_DEVICE_UNAVAILABLE", cat("`device` cuda: ", why),
       "use `device` cpu, or `device` auto to take a GPU when there is one");
}

static std::string find_plugin() {
  if (const char* named = std::getenv("ONNX_AMP_CUDA_PLUGIN"); named && *named) return named;
  if (std::string path = find_plugin_file("libonnx_amp_cuda.so"); !path.empty()) return path;
  unavailable(
      "this build has no CUDA backend: there is no libonnx_amp_cuda.so beside the program (built only with nvcc)");
}

bool has_cuda_driver() {
  // If the environment names a plugin (such as the emulated plugin of tests), its need for a driver is not known.
  if (const char* named = std::getenv("ONNX_AMP_CUDA_PLUGIN"); named && *named) return true;
  static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return driver != nullptr;
}

const PluginApi& load_plugin() {
  const std::string path = find_plugin();
  // The library stays loaded until the process ends, because kernels from it are kept.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    unavailable(cat("the CUDA backend cannot be loaded: ", why ? why : path.c_str()));
  }
  const auto entry = reinterpret_cast<const PluginApi* (*)()>(dlsym(library, "onnx_amp_cuda_plugin"));
  if (!entry) unavailable(cat(path, " is no plugin of this program"));
  const PluginApi& api = *entry();
  if (api.abi != kPluginAbi)
    unavailable(cat(path, " was built for another version of this program (", api.abi, ", this is ", kPluginAbi, ")"));
  return api;
}

PluginLibraries plugin_libraries(const char* names) {
  PluginLibraries used;
  if (!names || !*names) return used;
  used = {false, false, false};
  if (std::string_view(names) == "none") return used;
  for (const std::string& name : split(names, ',')) {
    if (name == "cublaslt")
      used.cublaslt = true;
    else if (name == "cudnn")
      used.cudnn = true;
    else if (name == "nvrtc")
      used.nvrtc = true;
    else
      fail(Exit::usage, "E_USAGE",
           cat("ONNX_AMP_CUDA_LIBRARIES: '", printable(name), "' is not a library that it names"),
           "write none, or a list of cublaslt, cudnn, nvrtc");
  }
  return used;
}

std::shared_ptr<Device> open_cuda(const PluginOptions& options) {
  PluginOptions o = options;
  o.libraries = plugin_libraries(std::getenv("ONNX_AMP_CUDA_LIBRARIES"));
  return std::shared_ptr<Device>(load_plugin().open(o));
}

}  // namespace amp
