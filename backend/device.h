// A Device gives Programs their memory, copies, kernels and recordings of launches (CUDA graphs).
//
// A device executes operations in the order of the calls. On the CPU an operation is finished when the call returns. On
// CUDA only download() and synchronize() wait.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/arena.h"
#include "backend/device_communicator.h"
#include "backend/indices.h"
#include "backend/kernel.h"

namespace amp {

// Device memory. It is released when the last copy of the pointer is destroyed.
using DeviceMemory = std::shared_ptr<void>;

// A recorded sequence of launches (a CUDA graph). replay() executes all of them with one launch.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

class DeviceUpdate;  // defined in backend/update.h
struct UpdateSpec;

// Capabilities of a device and what makes it faster. Code asks for these instead of comparing the kind of device.
struct DeviceTraits {
  bool host_memory = false;        // the host can read and write the device's memory
  bool checks_indices = false;     // kernels reject indices that are out of bounds; otherwise Programs check them first
  bool fuses_elementwise = false;  // fusing elementwise nodes, and GELU after its product, into one kernel is faster
  bool activates_norms = false;    // one kernel for batch normalization and the activation after it is faster
  bool recomputes_freely = false;  // recomputing norms and elementwise nodes is cheap compared with products
  bool lends_gradients = false;    // the gradient arena can be scratch memory (backend/gradient_scratch.h)
  bool merges_qkv = false;         // merging products with the same input (query, key, value) is faster
  bool reads_deferred = false;     // kernels dequantize the weights that they multiply (OpDef::deferred)
  bool chains_low = false;         // 16-bit convolutions are faster in NHWC regions
  bool chains_fp32 = false;        // fp32 convolutions are faster in NHWC regions
  // Steps are asynchronous. Their results are reported later, and nothing within a step waits for them.
  bool reports_late = false;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceTraits traits() const = 0;
  virtual std::string description() const = 0;  // name for reports, such as "NVIDIA H200, driver 13.0"

  virtual PrepareKernel kernel(std::string_view op) const = 0;         // returns null if there is no kernel
  virtual int64_t workspace(const Graph& g, const Node& n) const = 0;  // bytes of scratch that the kernel needs

  // Returns zeroed memory, aligned to at least 64 bytes. Throws E_OOM.
  virtual DeviceMemory allocate(int64_t bytes) = 0;
  virtual std::unique_ptr<Arena> make_arena() = 0;
  virtual int64_t memory_in_use() const = 0;  // bytes that this process has allocated on the device; 0 on the CPU

  virtual void upload(void* to, const void* host, int64_t bytes) = 0;  // the caller may change `host` after the call
  virtual void download(void* host, const void* from, int64_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(void* to, uint8_t byte, int64_t bytes) = 0;

  // Returns a kernel that detects indices out of bounds while a Program runs, for devices whose kernels cannot reject
  // them. The run fails in refuse_index() once the host is informed, at the latest when something is read back. `what`
  // is a part of the message: "of GatherRows".
  virtual Kernel check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what);

  // Return prepared operations. convert: from any type to any other. add: to += v, both fp32 or both fp64.
  virtual Kernel convert(const Tensor& from, const Tensor& to) = 0;
  virtual Kernel add(const Tensor& to, const Tensor& v) = 0;
  // Returns a conversion that writes rows of `row` elements, whose starts are `pitch` elements apart.
  virtual Kernel convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) = 0;

  // Returns how many times a kernel could not validate the library's implementation against the built-in one because
  // its operands were all zeros. Only work that does not increase this count may be recorded.
  virtual int64_t unvalidated() const { return 0; }

  // Runs `work` and returns a recording of its launches. Returns null if recording does not make this device faster.
  // `work` must not wait for the device.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  virtual std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) = 0;
  // Connects this device to those of the other ranks. All ranks call it at the same time. Returns null if the host sums
  // the gradients of such devices (trainer/comm/device_communicator.h).
  virtual std::unique_ptr<DeviceCommunicator> join(const RankContact&) { return nullptr; }

  HostTensor read(const Tensor& t);  // returns a copy in the host's memory
  // Like read(), but returns a view instead of a copy if the device computes in the host's memory.
  virtual HostTensor on_host(const Tensor& t) { return read(t); }
};

Device& cpu_device();

}  // namespace amp
