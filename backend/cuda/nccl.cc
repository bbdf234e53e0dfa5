// Loads NCCL 2 at run time and implements the device communicator, which sums, averages and gathers over ranks with one
// GPU each. A thread polls the communicator for asynchronous errors, because the host may block in a collective that
// never ends. nccl.h declares NCCL's functions; runtime/nccl_abi.cc compares the declarations with NVIDIA's header.
#include "backend/cuda/nccl.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>

#include "backend/cuda/device.h"
#include "backend/cuda/rank_sums.h"
#include "base/error.h"

namespace amp::cuda {

namespace nccl {

namespace {

[[noreturn]] void no_nccl(const std::string& why) {
  fail(Exit::unsupported, "E_NCCL", cat("several ranks on GPUs need NCCL: ", why),
       "install libnccl2, or name its file by ONNX_AMP_NCCL_LIBRARY; `device` cpu needs none");
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) no_nccl(cat("the library has no ", name));
}

int type_of(DType t) {
  return t == DType::f16 ? kFloat16 : t == DType::bf16 ? kBfloat16 : t == DType::f64 ? kFloat64 : kFloat32;
}

}  // namespace

Api open(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);  // the library is not unloaded
  if (!library) {
    const char* const why = dlerror();
    no_nccl(why ? why : "it cannot be loaded");
  }
  Api api;
  find(library, "ncclGetVersion", api.get_version);
  find(library, "ncclGetUniqueId", api.get_unique_id);
  find(library, "ncclCommInitRank", api.comm_init_rank);
  find(library, "ncclCommDestroy", api.comm_destroy);
  find(library, "ncclCommGetAsyncError", api.comm_get_async_error);
  find(library, "ncclAllReduce", api.all_reduce);
  find(library, "ncclBroadcast", api.broadcast);
  find(library, "ncclGroupStart", api.group_start);
  find(library, "ncclGroupEnd", api.group_end);
  find(library, "ncclGetErrorString", api.get_error_string);
  find(library, "ncclGetLastError", api.get_last_error);
  int version = 0;
  if (api.get_version(&version) != kSuccess || version < kLeastVersion)
    no_nccl(cat("the library has version ", version, ", at least ", kLeastVersion, " is needed"));
  return api;
}

const Api& load() {
  const char* const named = std::getenv("ONNX_AMP_NCCL_LIBRARY");
  static const Api api = open(named && *named ? named : "libnccl.so.2");
  return api;
}

}  // namespace nccl

NcclRanks::NcclRanks(const nccl::Api& api, CudaDevice& device, const RankContact& contact)
    : api_(api), device_(device), contact_(contact) {
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  if (contact_.local) broken_ = device_.allocate(4);
  if (const CompressedGradients& g = contact_.gradients; g.as != DType::f32) {
    sent_memory_ = device_.allocate(g.arena.numel() * size_of(g.as));
    sent_ = Tensor{sent_memory_.get(), g.as, g.arena.dims};
  }
  nccl::UniqueId id{};
  if (contact_.rank == 0) ensure(api_.get_unique_id(&id), "creating the communicator's id");
  std::string bytes(id.bytes, sizeof id.bytes);
  contact_.from_first(bytes);
  check(bytes.size() == sizeof id.bytes, "the first rank sent no communicator id");
  bytes.copy(id.bytes, sizeof id.bytes);
  ensure(api_.comm_init_rank(&comm_, contact_.size, id, contact_.rank), "joining the ranks");
  watcher_ = std::thread([this] { watch(); });
}

NcclRanks::~NcclRanks() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  // Waits for work in flight, which uses the communicator, and destroys the communicator. After an error the
  // destructor does neither, because both may wait for a lost rank.
  int error = nccl::kSuccess;
  if (api_.comm_get_async_error(comm_, &error) != nccl::kSuccess || error != nccl::kSuccess) return;
  try {
    device_.synchronize();
    api_.comm_destroy(comm_);
  } catch (...) {
  }
}

void NcclRanks::ensure(int result, const char* doing) const {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return;
  const char* const more = api_.get_last_error(comm_);
  fail(Exit::distributed, comm_ ? "E_RANK_LOST" : "E_NCCL_ERROR",
       cat("NCCL, ", doing, ", rank ", contact_.rank, " of ", contact_.size, ": ", api_.get_error_string(result),
           more && *more ? cat(" (", more, ")") : ""),
       "NCCL_DEBUG=INFO prints more; every rank needs a separate GPU");
}

void NcclRanks::sum_all(const std::vector<Tensor>& data) {
  ensure(api_.group_start(), "starting a sum");
  for (const Tensor& t : data) {
    ensure(api_.all_reduce(t.data, t.data, static_cast<size_t>(t.numel()), nccl::type_of(t.dtype), nccl::kSum, comm_,
                           device_.stream()),
           "summing");
  }
  ensure(api_.group_end(), "summing");
}

void NcclRanks::sum(const std::vector<Tensor>& data) {
  for (const Tensor& t : data)
    check(t.dtype == DType::f32 || t.dtype == DType::f64, "sums over ranks are of fp32 or fp64");
  if (contact_.local) return sum_local(data);
  std::vector<Tensor> sent = data;
  for (Tensor& t : sent) {
    if (!contact_.gradients.low(t)) continue;
    pack_gradients(device_, t, sent_, contact_.size);
    t = sent_;
  }
  sum_all(sent);
  for (const Tensor& t : data) {
    if (contact_.gradients.low(t)) unpack_gradients(device_, sent_, t, contact_.size);
  }
}

void NcclRanks::sum_local(const std::vector<Tensor>& data) {
  const Tensor flag{broken_.get(), DType::f32, {1}};
  std::vector<Tensor> summed{flag}, own;
  for (const Tensor& t : data) {
    if (t.numel() > 0) (t.dtype == DType::f64 ? summed : own).push_back(t);
  }
  flag_nonfinite(device_, own, flag);
  sum_all(summed);
  if (!own.empty()) set_infinite(device_, flag, own.front());
}

void NcclRanks::average(const std::vector<Tensor>& data) {
  sum_all(data);
  for (const Tensor& t : data) divide(device_, t, contact_.size);
}

// Gathers by a group of broadcasts, as NCCL's guide suggests, because ncclAllGather requires ranges of equal length.
void NcclRanks::gather(const Tensor& data, const std::vector<ElementRange>& ranges) {
  check(data.dtype == DType::f32 && static_cast<int>(ranges.size()) == contact_.size, "shares of fp32 are gathered");
  ensure(api_.group_start(), "starting to gather");
  for (int r = 0; r < contact_.size; ++r) {
    const ElementRange& range = ranges[static_cast<size_t>(r)];
    float* const at = data.as<float>() + range.begin;
    if (range.count == 0) continue;
    ensure(
        api_.broadcast(at, at, static_cast<size_t>(range.count), nccl::type_of(data.dtype), r, comm_, device_.stream()),
        "gathering");
  }
  ensure(api_.group_end(), "gathering");
}

// Polls for asynchronous errors, because the host may wait for a sum that never ends. On an error calls contact_.lost,
// which ends the process, as PyTorch's watchdog does. ncclCommAbort is not used, because it may wait.
void NcclRanks::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return over_; })) {
    int error = nccl::kSuccess;
    const int asked = api_.comm_get_async_error(comm_, &error);
    try {
      ensure(asked, "asking for errors");
      ensure(error, "summing");
    } catch (const Error& e) {
      if (contact_.lost) contact_.lost(e);
      return;
    }
  }
}

}  // namespace amp::cuda
