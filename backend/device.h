// Device: memory, copies, kernels and recordings of launches for Programs.
//
// Operations are ordered: a device executes them in the order of the calls. On the CPU an operation is finished
// when the call returns. On CUDA only download() waits.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/arena.h"
#include "backend/device_communicator.h"
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

// Capabilities of a device and what makes it faster. Code asks for these instead of comparing the kind of device.
struct DeviceTraits {
  bool host_memory = false;        // the host reads and writes its memory in place
  bool checks_indices = false;     // its kernels reject indices out of bounds; otherwise Programs check them beforehand
  bool fuses_elementwise = false;  // fusing elementwise nodes, and GELU after its product, into one kernel is faster
  bool activates_norms = false;    // one kernel for batch normalization and the activation after it is faster
  bool recomputes_freely = false;  // norms and elementwise nodes cost little compared with products in fp32
  bool lends_gradients = false;    // memory of gradients may hold activations beforehand (backend/gradient_scratch.h)
  bool merges_qkv = false;         // merging products with the same input (query, key, value) is faster
  bool chains_low = false;         // 16-bit convolutions are faster in NHWC regions
  bool chains_fp32 = false;        // fp32 convolutions too
  bool reports_late = false;  // steps are asynchronous: the results are reported later, and nothing within a step waits
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceTraits traits() const = 0;
  virtual std::string description() const = 0;  // "NVIDIA H200, driver 13.0", for reports

  virtual PrepareKernel kernel(std::string_view op) const = 0;         // null if there is none
  virtual int64_t workspace(const Graph& g, const Node& n) const = 0;  // scratch bytes that its kernel needs

  virtual DeviceMemory allocate(int64_t bytes) = 0;  // zeroed, aligned to at least 64 bytes; E_OOM
  virtual std::unique_ptr<Arena> make_arena() = 0;
  virtual int64_t memory_in_use() const = 0;  // bytes allocated by this process on the device; 0 on the CPU

  virtual void upload(void* to, const void* host, int64_t bytes) = 0;  // host may be reused when the call returns
  virtual void download(void* host, const void* from, int64_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(void* to, uint8_t byte, int64_t bytes) = 0;

  // Detects indices out of bounds while a Program runs, if kernels cannot reject them. The run fails in
  // refuse_index() as soon as the host is informed, at the latest when something is read back. `what` appears in
  // the message: "of GatherRows".
  virtual Kernel check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what);

  // Prepared in advance, as kernels are. convert: any type to any other. add: to += v, both fp32 or both fp64.
  virtual Kernel convert(const Tensor& from, const Tensor& to) = 0;
  virtual Kernel add(const Tensor& to, const Tensor& v) = 0;
  // Converts into rows of `row` elements; rows start `pitch` elements apart.
  virtual Kernel convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) = 0;

  // Number of times that a kernel could not validate the library's version of it, because it has received only
  // zeros. Work that does not add to this count may be recorded.
  virtual int64_t unvalidated() const { return 0; }

  // Null if recording brings no gain. `work` must not wait for the device.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;

  virtual std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) = 0;
  // Called by all ranks of a run together. Null if the host sums in shared memory.
  virtual std::unique_ptr<DeviceCommunicator> join(const RankContact&) { return nullptr; }

  HostTensor read(const Tensor& t);  // a copy
  // A view if the device computes in the host's memory, otherwise a copy.
  virtual HostTensor on_host(const Tensor& t) { return read(t); }
};

Device& cpu_device();

}  // namespace amp
