// Program: an executable Graph. Kernels are resolved, memory is planned (program_plan.h), addresses are fixed. A
// run walks a flat list of closures, without allocations or lookups.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "backend/node_work.h"
#include "backend/param_cache.h"
#include "backend/thread_choice.h"

namespace amp {

struct ProgramOptions {
  Device* device = &cpu_device();
  Arena* arena = nullptr;      // memory of activations; shared by Programs that do not run at the same time
  std::vector<Tensor> params;  // indexed by slot (index in the ParamTable); all tensors here are in the device's memory
  std::vector<Tensor> grads;   // indexed by slot, views of the gradient arena; empty for forward-only graphs
  bool accumulate = false;     // add gradients to the arena instead of writing them
  // Without accumulate: memory of gradients holds activations until the gradients are written
  // (backend/gradient_scratch.h).
  bool gradients_are_scratch = false;
  ParamCache* cache = nullptr;
  // The constants that Programs share, by address on the host: their copies in the device's memory, null until one
  // Program has made them. A Program has own copies of other constants.
  std::map<const void*, DeviceMemory>* constants = nullptr;
  const RunState* state = nullptr;  // is in the host's memory
  bool poison = false;              // for tests: fill freed memory with NaN
};

struct BufferLife;
struct ProgramPlan;

class Program {
 public:
  Program(std::shared_ptr<const Graph> graph, const ProgramOptions& options);
  Program(const Program&) = delete;  // not copyable: inputs and outputs are referenced by address
  Program& operator=(const Program&) = delete;

  // An input of the graph. Write to its tensor before run(). find_input() and find_output() look up a tensor by name;
  // the returned pointers are valid for the lifetime of the Program, and null for an unknown name.
  struct Input {
    std::string name;
    Tensor tensor;                   // is in the device's memory
    std::vector<IndexBound> bounds;  // bounds of indices that no kernel checks; write() checks them
  };
  const Input* find_input(const std::string& name) const;
  const Tensor* find_output(const std::string& name) const;
  void write(const Input& input, const HostTensor& value);  // converts the value to the input's type; shapes must match

  // Return the tensor of an input or an output. Throw a usage error for an unknown name.
  const Tensor& input(const std::string& name) const;
  const Tensor& output(const std::string& name) const;  // is in the device's memory; read() copies it to the host
  bool has_input(const std::string& name) const { return find_input(name) != nullptr; }
  bool has_output(const std::string& name) const { return find_output(name) != nullptr; }
  HostTensor read(const std::string& name) const { return device_->read(output(name)); }
  void set_input(const std::string& name, const HostTensor& value);

  void run();

  int64_t arena_bytes() const { return arena_bytes_; }
  size_t n_steps() const { return steps_.size(); }
  const std::shared_ptr<const Graph>& graph() const { return graph_; }  // the graph whose nodes an Observer receives
  // Runs and passes every node's outputs, in the host's memory, to the observer right after they are computed.
  // Views are skipped, because they compute nothing, as are gradients of parameters.
  using Observer = std::function<void(const Node&, size_t output, const Tensor&)>;
  void run(const Observer& see);
  // Runs and waits for the device after each step, with the number of threads that run() has chosen. Returns when
  // each step began and ended, by the steady clock. node: null if the step moves a gradient to the arena
  // (AccumulateGrad) or checks indices (CheckIndices).
  struct TimedStep {
    std::string_view op;
    const Node* node;
    NodeWork work;
    double begin, end;  // seconds of the steady clock
  };
  std::vector<TimedStep> run_timed();
  bool choosing_threads() const { return threads_.deciding(); }
  int threads() const { return threads_.chosen(); }  // host threads that run() uses; 0: not run yet

 private:
  struct Step {
    Kernel run;
    const Node* node;
    NodeWork work = {};
  };
  Tensor tensor(ValueId v) const;

  void place_values(const ProgramPlan& plan, const ProgramOptions& o);
  char* place(const BufferLife& b) const;  // the buffer's address: BufferLife::place, or in the arena
  DeviceMemory copy_of(const HostTensor& constant, const ProgramOptions& o) const;
  void place_copy(const Node& node, const ProgramOptions& o);
  void emit_steps(const ProgramPlan& plan, const ProgramOptions& o);
  void emit_node(NodeId id, const ProgramPlan& plan, const ProgramOptions& o);
  std::shared_ptr<const KernelArgs> deferred_input(const Node& node, const ProgramPlan& plan) const;
  void emit_gradient(size_t i, const ProgramOptions& o);
  std::optional<Tensor> rows_of(size_t gradient, const ProgramOptions& o) const;
  void report_finished(const std::vector<size_t>& gradients, const ProgramOptions& o);
  void emit_poison(NodeId id, const ProgramPlan& plan);
  void check_indices(const Node& node);
  std::vector<bool> gradients_of_params() const;

  void upload_state();
  void run_on_host_threads();
  template <class After>
  void launch(After&& after);

  Device* device_;
  std::shared_ptr<const Graph> graph_;
  std::vector<DeviceMemory> owned_;                      // memory of constants and of the device's run state
  const RunState* state_ = nullptr;                      // is in the host's memory
  void* device_state_ = nullptr;                         // null if the device reads the host's state
  std::map<int32_t, std::vector<IndexBound>> computed_;  // bounds that the device checks, by value of the indices
  std::unique_ptr<Recording> recording_;
  static constexpr int kMostUndecided = 8;
  int undecided_runs_ = 0;
  ThreadChoice threads_;  // used if kernels run on the host
  bool ran_ = false;
  char* arena_ = nullptr;
  std::vector<void*> address_;  // address of each value
  std::vector<Step> steps_;
  std::map<std::string, Input> inputs_;
  std::map<std::string, Tensor> outputs_;
  int64_t arena_bytes_ = 0;
};

}  // namespace amp
