// Compiles generated kernels with NVRTC on background threads, caches the machine code in files and loads it into the
// driver at the first launch. The first failure prints a warning. Launches of a kernel that failed return false.
#include "backend/cuda/runtime/compiler.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <semaphore>
#include <thread>

#include "backend/cuda/runtime/nvrtc.h"
#include "base/error.h"
#include "base/message.h"

namespace amp::cuda {

static void warn_once(const std::string& why) {
  static std::once_flag once;
  std::call_once(once, [&] {
    print_message(Level::warning,
                  cat("fused kernels are interpreted, which is slow: ", why, " (`fusion` false avoids them)"));
  });
}

struct Compiler::Entry {
  std::string name;
  std::future<std::string> code;
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  bool failed = false;

  // Waits for the code and loads it into the driver. Each launch calls it; only the first call has an effect.
  void load() {
    if (!code.valid()) return;
    const std::string cubin = code.get();
    failed = cubin.empty();
    if (failed) return;
    cudaError_t status = cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status == cudaSuccess) status = cudaLibraryGetKernel(&kernel, library, name.c_str());
    if (status == cudaSuccess) return;
    failed = true;
    cudaGetLastError();
    warn_once(cat("loading one: ", cudaGetErrorString(status)));
  }
  ~Entry() {
    if (code.valid()) code.wait();
    if (library) cudaLibraryUnload(library);
  }
};

Compiler::Compiler(void* stream, const std::string& architecture, const std::string& folder)
    : stream_(stream), architecture_(architecture), folder_(folder) {}
Compiler::~Compiler() = default;

std::shared_ptr<Compiler::Entry> Compiler::entry(const GeneratedSource& source) {
  std::shared_ptr<Entry>& e = entries_[source.name];
  if (e) return e;
  e = std::make_shared<Entry>();
  e->name = source.name;
  const std::string path = folder_.empty()
                               ? std::string{}
                               : cat(folder_, '/', source.name, '-', architecture_, '-', nvrtc_version(), ".cubin");
  e->code = std::async(std::launch::async, [source, path, architecture = architecture_] {
    std::string code = path.empty() ? std::string{} : read_cubin(path);
    if (!code.empty()) return code;
    static std::counting_semaphore<64> places(std::clamp<ptrdiff_t>(std::thread::hardware_concurrency(), 1, 64));
    places.acquire();
    std::string why;
    code = compile_cubin(source, architecture, why);
    places.release();
    if (code.empty())
      warn_once(why);
    else if (!path.empty())
      write_cubin(path, code);
    return code;
  });
  return e;
}

GeneratedKernel Compiler::compile(const GeneratedSource& source) {
  if (!nvrtc_missing().empty()) {
    warn_once(nvrtc_missing());
    return {};
  }
  return [e = entry(source), stream = static_cast<cudaStream_t>(stream_), expected = source.words](
             const Grid& g, const std::vector<uint64_t>& words) {
    check(words.size() == expected, "a generated kernel has a different number of arguments");
    e->load();
    if (e->failed) return false;
    void* argument[] = {const_cast<uint64_t*>(words.data())};
    const cudaError_t status =
        cudaLaunchKernel(reinterpret_cast<const void*>(e->kernel), dim3(static_cast<unsigned>(g.blocks)),
                         dim3(static_cast<unsigned>(g.threads)), argument, static_cast<size_t>(g.shared), stream);
    if (status != cudaSuccess)
      fail(Exit::internal, "E_CUDA_LAUNCH", cat("launching ", e->name, ": ", cudaGetErrorString(status)));
    return true;
  };
}

}  // namespace amp::cuda
