// Loads NVRTC at run time and compiles the source of a generated kernel to machine code (a cubin).
// Also reads and writes the files of the cubin cache, each with a checksum.
#include "backend/cuda/runtime/nvrtc.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/hash.h"

namespace amp::cuda {

namespace {

// The functions of NVRTC that are used, declared as in NVRTC's header.
struct Library {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetErrorString) error = nullptr;
  std::string missing;  // why the library is missing; empty if it is loaded

  Library() {
    const std::string name = cat("libnvrtc.so.", CUDART_VERSION / 1000);
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      missing = dlerror();
      return;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      if (!function) missing = cat(name, " has no ", symbol);
    };
    find(version, "nvrtcVersion");
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
    find(error, "nvrtcGetErrorString");
    if (missing.empty()) load_builtins();
  }

 private:
  // Loads NVRTC's builtins library from NVRTC's folder. NVRTC opens this library by name, which fails if NVRTC itself
  // was found by the plugin's RUNPATH. A library that is already loaded is found by its name.
  void load_builtins() const {
    int major = 0, minor = 0;
    Dl_info place{};
    if (version(&major, &minor) != NVRTC_SUCCESS || !dladdr(reinterpret_cast<void*>(version), &place)) return;
    const std::string file = place.dli_fname;
    dlopen(cat(file.substr(0, file.rfind('/') + 1), "libnvrtc-builtins.so.", major, ".", minor).c_str(),
           RTLD_NOW | RTLD_LOCAL);
  }
};

const Library& library() {
  static const Library l;
  return l;
}

}  // namespace

std::string nvrtc_missing() { return library().missing; }

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!library().missing.empty() || library().version(&major, &minor) != NVRTC_SUCCESS) return {};
  return cat(major, '.', minor);
}

std::string compile_cubin(const GeneratedSource& source, const std::string& architecture, std::string& why) {
  const Library& l = library();
  if (!l.missing.empty()) {
    why = l.missing;
    return {};
  }
  nvrtcProgram program = nullptr;
  const std::string text = whole_text({source});
  nvrtcResult status = l.create(&program, text.c_str(), (source.name + ".cu").c_str(), 0, nullptr, nullptr);
  const std::string arch = "--gpu-architecture=" + architecture;
  // The options match those of the operators' own kernels (cmake/cuda.cmake).
  const char* const options[] = {arch.c_str(), "--std=c++20", "--fmad=false", "-default-device"};
  if (status == NVRTC_SUCCESS) status = l.compile(program, static_cast<int>(std::size(options)), options);
  std::string code;
  size_t bytes = 0;
  if (status == NVRTC_SUCCESS && l.cubin_size(program, &bytes) == NVRTC_SUCCESS) {
    code.resize(bytes);
    status = l.cubin(program, code.data());
  }
  if (status != NVRTC_SUCCESS) {
    code.clear();
    why = l.error(status);
    if (program && l.log_size(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
      std::string log(bytes, '\0');
      l.log(program, log.data());
      why += cat(": ", log.c_str());
    }
  }
  if (program) l.destroy(&program);
  return code;
}

std::string read_cubin(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  if (all.size() <= 64) return {};
  return all.substr(0, 64) == sha256(all.data() + 64, all.size() - 64) ? all.substr(64) : std::string{};
}

void write_cubin(const std::string& path, const std::string& code) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string fresh = cat(path, '.', getpid(), ".new");
  {
    std::ofstream out(fresh, std::ios::binary);
    out << sha256(code.data(), code.size()) << code;
    if (!out.flush()) {
      out.close();
      std::filesystem::remove(fresh, ignored);
      return;
    }
  }
  std::filesystem::rename(fresh, path, ignored);
}

}  // namespace amp::cuda
