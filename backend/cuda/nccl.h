// Sums over GPUs by NCCL 2 (libnccl.so.2, https://docs.nvidia.com/deeplearning/nccl), one GPU per rank. The library is
// loaded when ranks with GPUs connect, so that the program runs without it. This file declares the functions that are
// used; runtime/nccl_abi.cc compares the declarations with NVIDIA's header.
//
// A sum is enqueued on the device's stream and recorded with the kernels. NCCL fixes the order of the summands: all
// ranks get the same bits, which may differ from those of the CPU's ranks. The order of NVLink SHARP may differ from
// run to run. It is off unless NCCL_NVLS_ENABLE enables it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backend/device.h"
#include "backend/device_communicator.h"

namespace amp::cuda {

class CudaDevice;

namespace nccl {

using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t
struct UniqueId {
  char bytes[128];
};
constexpr int kSuccess = 0, kInProgress = 7;  // values of ncclResult_t
// Values of ncclDataType_t.
constexpr int kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;
constexpr int kSum = 0;               // a value of ncclRedOp_t
constexpr int kLeastVersion = 21800;  // 2.18; open() refuses older versions

struct Api {
  int (*get_version)(int* version);
  int (*get_unique_id)(UniqueId* id);
  int (*comm_init_rank)(Comm* comm, int ranks, UniqueId id, int rank);
  int (*comm_destroy)(Comm comm);
  int (*comm_get_async_error)(Comm comm, int* error);
  int (*all_reduce)(const void* send, void* receive, size_t count, int type, int op, Comm comm, Stream stream);
  int (*broadcast)(const void* send, void* receive, size_t count, int type, int root, Comm comm, Stream stream);
  int (*group_start)();
  int (*group_end)();
  const char* (*get_error_string)(int result);
  const char* (*get_last_error)(Comm comm);
};

// Opens the library `file`. Throws E_NCCL (Exit::unsupported) if it is missing or too old.
Api open(const char* file);
// Opens libnccl.so.2, or the library that ONNX_AMP_NCCL_LIBRARY names, once per process.
const Api& load();

}  // namespace nccl

class NcclRanks final : public DeviceCommunicator {
 public:
  // Joins the communicator of all ranks. All ranks must call the constructor at the same time. Throws E_NCCL
  // (Exit::distributed) if NCCL does not start.
  NcclRanks(const nccl::Api& api, CudaDevice& device, const RankContact& contact);
  ~NcclRanks() override;

  void sum(const std::vector<Tensor>& data) override;
  void average(const std::vector<Tensor>& data) override;
  void gather(const Tensor& data, const std::vector<ElementRange>& ranges) override;

 private:
  void sum_all(const std::vector<Tensor>& data);  // sums tensors of any type that NCCL supports, as one group
  void sum_local(const std::vector<Tensor>& data);
  void ensure(int result, const char* doing) const;
  void watch();  // polls for NCCL's asynchronous errors

  const nccl::Api& api_;
  CudaDevice& device_;
  const RankContact contact_;
  Tensor sent_;                        // gradients that are exchanged in 16 bits
  DeviceMemory sent_memory_, broken_;  // broken_: flag for local steps: not 0 if a value is not finite
  nccl::Comm comm_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;  // the last member, because the thread uses the others
};

}  // namespace amp::cuda
