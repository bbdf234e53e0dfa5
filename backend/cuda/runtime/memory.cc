// Device memory for the CUDA runtime: single allocations, an arena that grows without moving (by the driver's virtual
// memory management), and an uploader that copies through two halves of pinned memory.
#include "backend/cuda/runtime/memory.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace amp::cuda {

namespace {
[[noreturn]] void out_of_memory(int64_t bytes) {
  cudaGetLastError();  // clears the error, so that the next launch does not report it
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  fail(Exit::memory, "E_OOM",
       cat("the GPU has no memory for ", bytes, " more bytes: ", free, " of ", total, " are free"),
       "use a smaller `batch_size` with `gradient_accumulation_steps`, or a smaller `max_seq_len`");
}
}  // namespace

void ensure(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) out_of_memory(0);
  fail(Exit::memory, "E_CUDA", cat(what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"),
       "the process must be restarted; `device` cpu does not use the GPU");
}

DeviceMemory allocate_device(int64_t bytes, cudaStream_t stream, std::shared_ptr<MemoryUse> use) {
  void* p = nullptr;
  const int64_t n = std::max<int64_t>(bytes, 256);
  const cudaError_t status = cudaMalloc(&p, static_cast<size_t>(n));
  if (status == cudaErrorMemoryAllocation) out_of_memory(n);
  ensure(status, "allocating device memory");
  ensure(cudaMemsetAsync(p, 0, static_cast<size_t>(n), stream), "clearing device memory");
  use->add(n);
  return DeviceMemory(p, [use, n](void* q) {
    cudaFree(q);
    use->add(-n);
  });
}

namespace {

template <class F>
F driver_function(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found;
  ensure(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found), name);
  if (!f || found != cudaDriverEntryPointSuccess)
    fail(Exit::usage, "E_DEVICE_UNAVAILABLE", cat("the CUDA driver has no ", name),
         "a driver for CUDA 12 or later is needed");
  return reinterpret_cast<F>(f);
}

void driver(CUresult r, const char* what, int64_t bytes) {
  if (r == CUDA_ERROR_OUT_OF_MEMORY) out_of_memory(bytes);
  if (r != CUDA_SUCCESS) fail(Exit::memory, "E_CUDA", cat(what, ": driver error ", static_cast<int>(r)));
}

class DeviceArena final : public Arena {
 public:
  DeviceArena(int device, std::shared_ptr<MemoryUse> use) : use_(std::move(use)) {
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_.location.id = device;
    driver(granularity_of_(&granularity_, &prop_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "asking for the page size", 0);
    size_t free = 0, total = 0;
    ensure(cudaMemGetInfo(&free, &total), "reading the device's free memory");
    reserved_ = (total + granularity_ - 1) / granularity_ * granularity_;
    CUdeviceptr base = 0;
    driver(reserve_(&base, reserved_, 0, 0, 0), "reserving address space", static_cast<int64_t>(reserved_));
    base_ = reinterpret_cast<void*>(base);
  }
  ~DeviceArena() override {
    cudaDeviceSynchronize();
    const auto base = reinterpret_cast<CUdeviceptr>(base_);
    if (mapped_ > 0) unmap_(base, mapped_);
    for (const auto handle : handles_) release_(handle);
    free_(base, reserved_);
    use_->add(-static_cast<int64_t>(mapped_));
  }

 private:
  void grow(int64_t bytes) override {
    const size_t wanted = (static_cast<size_t>(bytes) + granularity_ - 1) / granularity_ * granularity_;
    if (wanted <= mapped_) return;
    if (wanted > reserved_) out_of_memory(bytes);
    const size_t more = wanted - mapped_;
    CUmemGenericAllocationHandle handle;
    driver(create_(&handle, more, &prop_, 0), "allocating the arena", static_cast<int64_t>(more));
    const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(base_) + mapped_;
    driver(map_(at, more, 0, handle, 0), "mapping the arena", static_cast<int64_t>(more));
    CUmemAccessDesc access{};
    access.location = prop_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver(access_(at, more, &access, 1), "opening the arena", static_cast<int64_t>(more));
    handles_.push_back(handle);
    mapped_ = wanted;
    use_->add(static_cast<int64_t>(more));
  }

  decltype(&cuMemGetAllocationGranularity) granularity_of_ =
      driver_function<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemAddressReserve) reserve_ = driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free_ = driver_function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create_ = driver_function<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release_ = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map_ = driver_function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap_ = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) access_ = driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  CUmemAllocationProp prop_{};
  size_t granularity_ = 0, reserved_ = 0, mapped_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
  std::shared_ptr<MemoryUse> use_;
};

}  // namespace

std::unique_ptr<Arena> make_device_arena(int device, std::shared_ptr<MemoryUse> use) {
  return std::make_unique<DeviceArena>(device, std::move(use));
}

Uploader::Uploader(cudaStream_t stream) : stream_(stream) {
  ensure(cudaMallocHost(reinterpret_cast<void**>(&pinned_), static_cast<size_t>(2 * kHalf)),
         "allocating pinned memory");
  for (cudaEvent_t& e : read_) ensure(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "creating an event");
}

Uploader::~Uploader() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t e : read_) cudaEventDestroy(e);
  cudaFreeHost(pinned_);
}

void Uploader::upload(void* to, const void* host, int64_t bytes) {
  const char* from = static_cast<const char*>(host);
  char* dst = static_cast<char*>(to);
  while (bytes > 0) {
    if (used_ == kHalf) {
      ensure(cudaEventRecord(read_[half_], stream_), "recording an event");
      half_ = 1 - half_;
      used_ = 0;
      // cudaEventSynchronize() returns at once if the event was not recorded yet.
      ensure(cudaEventSynchronize(read_[half_]), "waiting for an upload");
    }
    const int64_t n = std::min(bytes, kHalf - used_);
    char* staging = pinned_ + half_ * kHalf + used_;
    std::memcpy(staging, from, static_cast<size_t>(n));
    ensure(cudaMemcpyAsync(dst, staging, static_cast<size_t>(n), cudaMemcpyHostToDevice, stream_), "uploading");
    used_ += (n + 63) / 64 * 64 > kHalf - used_ ? kHalf - used_ : (n + 63) / 64 * 64;
    from += n;
    dst += n;
    bytes -= n;
  }
}

}  // namespace amp::cuda
