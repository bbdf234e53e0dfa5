// Device: where Programs run and what they need of it: memory, copies, kernels, and a way to record a sequence of
// launches.
//
// Work is ordered: everything asked of a device happens in the order of the calls. On the CPU it has happened when a
// call returns; on CUDA only download() waits.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/arena.h"
#include "backend/device_ranks.h"
#include "backend/indices.h"
#include "backend/kernel.h"

namespace amp {

// Device memory, released with the last copy.
using DeviceMemory = std::shared_ptr<void>;

// A recorded sequence of launches (a CUDA graph): the same work with one launch.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

class DeviceUpdate;  // backend/update.h
struct UpdateSpec;

// What a device can do and what it gains by: asked instead of which device it is.
struct DeviceTraits {
  bool host_memory = false;        // the host reads and writes its memory in place
  bool checks_indices = false;     // its kernels refuse an index out of bounds; else Programs look before them
  bool fuses_elementwise = false;  // elementwise nodes, and GELU behind its product, gain as one kernel
  bool activates_norms = false;    // batch normalisation and the activation behind it gain as one kernel
  bool recomputes_freely = false;  // beside products in fp32, norms and elementwise nodes take next to no time
  bool lends_gradients = false;    // memory of gradients may hold activations before (backend/gradient_scratch.h)
  bool merges_qkv = false;         // products with the same input (query, key, value) gain as one
  bool chains_low = false;         // convolutions in 16 bits gain by chains with channels last
  bool chains_fp32 = false;        // those in fp32 too
  bool reports_late = false;       // a step is only asked for and heard of later: nothing in it waits
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceTraits traits() const = 0;
  virtual std::string description() const = 0;  // "NVIDIA H200, driver 13.0", for reports

  virtual PrepareKernel kernel(std::string_view op) const = 0;         // null when there is none
  virtual int64_t workspace(const Graph& g, const Node& n) const = 0;  // scratch bytes that its kernel wants

  virtual DeviceMemory allocate(int64_t bytes) = 0;  // zeroed, aligned to 64 bytes at least; E_OOM
  virtual std::unique_ptr<Arena> make_arena() = 0;
  virtual int64_t memory_in_use() const = 0;  // bytes, the device's own memory; 0 on the CPU

  virtual void upload(void* to, const void* host, int64_t bytes) = 0;  // host may be reused at once
  virtual void download(void* host, const void* from, int64_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(void* to, uint8_t byte, int64_t bytes) = 0;

  // Finds indices out of bounds while a Program runs, where kernels cannot refuse them: the run ends with
  // refuse_index() as soon as the host hears of it, at the latest when something is read back. what: "of GatherRows",
  // for people.
  virtual Kernel check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what);

  // Prepared like kernels. convert: any type to any other. add: to += v, both fp32 or both fp64.
  virtual Kernel convert(const Tensor& from, const Tensor& to) = 0;
  virtual Kernel add(const Tensor& to, const Tensor& v) = 0;
  // Converted into rows of `row` elements, each `pitch` elements behind the one before.
  virtual Kernel convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) = 0;

  // How often so far a kernel could not find out whether a library's version of it is right: it has seen zeros only.
  // What runs without adding to it may be recorded.
  virtual int64_t unvalidated() const { return 0; }

  // Null where there is nothing to gain. Nothing may wait while `work` runs.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  virtual std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) = 0;
  // By all ranks of a run together. Null where the host sums, in memory that it shares.
  virtual std::unique_ptr<DeviceRanks> join(const RankContact&) { return nullptr; }

  HostTensor read(const Tensor& t);  // a copy
  // Where the device computes in the host's memory a view, else a copy.
  virtual HostTensor on_host(const Tensor& t) { return read(t); }
};

Device& cpu_device();

}  // namespace amp
