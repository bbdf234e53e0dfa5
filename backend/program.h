// Program: a bound Graph made runnable: kernels resolved, memory planned, addresses fixed. Running it is a walk over a
// flat list of closures; nothing is allocated or looked up.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"

namespace amp {

// The prologue: values derived from parameters only (16-bit copies), shared by all Programs and refreshed when the
// parameters changed.
class ParamCache {
 public:
  explicit ParamCache(Device& device = cpu_device()) : device_(&device) {}
  // The copy of a parameter in another type, made now and by every refresh().
  Tensor copy(const Tensor& param, int slot, DType dtype);
  void refresh();
  int64_t bytes() const;
  struct Copy {
    int slot;
    Tensor tensor;
  };
  std::vector<Copy> copies() const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Tensor source, copy;
    DeviceMemory memory;
    Kernel refresh;
  };
  Device* device_;
  std::map<std::pair<int, DType>, Entry> entries_;
};

struct ProgramOptions {
  Device* device = &cpu_device();
  Arena* arena = nullptr;      // activations; shared by Programs that do not run at the same time
  std::vector<Tensor> params;  // by slot, in the device's memory as all of these
  std::vector<Tensor> grads;   // by slot, the gradient arena; empty for forward-only graphs
  bool accumulate = false;     // add gradients to the arena instead of writing them
  ParamCache* cache = nullptr;
  const RunState* state = nullptr;  // in the host's memory
  bool poison = false;              // fill freed memory with NaN: for tests
};

class Program {
 public:
  Program(std::shared_ptr<const Graph> graph, const ProgramOptions& options);

  // Where to write inputs before run() and read outputs after it; usage error for an unknown name.
  const Tensor& input(const std::string& name) const;
  bool has_input(const std::string& name) const { return inputs_.count(name) != 0; }
  bool has_output(const std::string& name) const { return outputs_.count(name) != 0; }
  const Tensor& output(const std::string& name) const;  // in the device's memory; read() brings it home
  HostTensor read(const std::string& name) const { return device_->read(output(name)); }
  void set_input(const std::string& name, const HostTensor& value);  // converts the type; shapes must match
  void run();

  int64_t arena_bytes() const { return arena_bytes_; }
  size_t n_steps() const { return steps_.size(); }
  const std::shared_ptr<const Graph>& graph() const { return graph_; }  // whose nodes an Observer is shown
  // A run that shows, in the host's memory, every node's outputs right after they are computed; views compute nothing
  // and are not shown, nor are the gradients of parameters.
  using Observer = std::function<void(const Node&, size_t output, const Tensor&)>;
  void run(const Observer& see);
  // Seconds spent in each step by a run of its own, by operator: for --profile and benches.
  std::map<std::string, double> profile();

 private:
  struct Step {
    Kernel run;
    const Node* node;
  };
  Tensor tensor(ValueId v) const;

  void launch();
  void check_indices(const Node& node);

  Device* device_;
  std::shared_ptr<const Graph> graph_;
  std::vector<DeviceMemory> owned_;                      // constants, the device's view of the run state
  const RunState* state_ = nullptr;                      // the host's
  void* device_state_ = nullptr;                         // null on the CPU
  std::map<int32_t, std::vector<IndexBound>> computed_;  // indices checked on the device, by value
  // of inputs that are indices, on devices that cannot check them
  std::map<std::string, std::vector<IndexBound>> bounds_;
  std::unique_ptr<Recording> recording_;
  static constexpr int kMostUndecided = 8;
  int undecided_runs_ = 0;
  bool ran_ = false;
  std::vector<void*> address_;  // by value
  std::vector<Step> steps_;
  std::map<std::string, Tensor> inputs_, outputs_;
  int64_t arena_bytes_ = 0;
};

}  // namespace amp
