// Recurrent layers by a library (cuDNN), where the device has one: what is asked of it, and the guard that its answers
// pass.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"

namespace amp::cuda {

enum class RecurrentCell { rnn_tanh, rnn_relu, lstm, gru };  // gru: linear_before_reset; gates sigmoid, states tanh

// One layer, one direction, forwards in time, all sequences whole; operands as those of the core operators
// (backend/cpu/recurrent.h), all of one type (fp32, fp16, bf16); sums are fp32.
struct Recurrence {
  RecurrentCell cell = RecurrentCell::lstm;
  int64_t time = 0, batch = 0, hidden = 0;
  DType type = DType::f32;
  bool operator==(const Recurrence&) const = default;
};

// By gate of the library, in its order (lstm i f n o, gru r z n), its place in ONNX's order (i o f n; z r n).
std::vector<int> library_gates(RecurrentCell cell);

// Null: absent, or not wanted. Gates lie in ONNX's order.
struct RecurrenceOperands {
  const void *xg = nullptr, *R = nullptr, *h0 = nullptr, *c0 = nullptr, *rb = nullptr;
  void *y = nullptr, *h = nullptr, *c = nullptr;  // backward reads y
  const void *dy = nullptr, *dh = nullptr, *dc = nullptr;
  void *dxg = nullptr, *dR = nullptr, *dh0 = nullptr, *dc0 = nullptr, *drb = nullptr;
};

enum class RecurrenceResult : uint8_t { y, h, c, dxg, dR, dh0, dc0, drb };
void*& place_of(RecurrenceOperands& o, RecurrenceResult which);

// One layer, planned. forward() leaves in memory of its own what backward() reads.
class LibraryRecurrence {
 public:
  virtual ~LibraryRecurrence() = default;
  virtual std::string name() const = 0;                    // "cuDNN", for messages
  virtual bool forward(const RecurrenceOperands& o) = 0;   // false: it refused
  virtual bool backward(const RecurrenceOperands& o) = 0;  // of the last forward(), once
  virtual bool may_wait() const = 0;                       // false while launches are recorded
};

// Runs a layer by the library once it has proved itself, forward and backward. Until then the project's kernels run and
// the library after them; their results are compared, and it is dropped for good with a warning when they differ by
// more than rounding may. Where a gradient is wanted, the library alone runs only when both directions are proved: each
// side keeps for its own backward what the other does not know.
class GuardedRecurrence {
 public:
  GuardedRecurrence(CudaDevice& d, const Recurrence& what, std::shared_ptr<LibraryRecurrence> library)
      : device_(d), what_(what), library_(std::move(library)) {}

  bool is(const Recurrence& other) const { return what_ == other; }
  void wants_gradient() { differentiated_ = true; }
  // What the library writes, and where the project's kernels have written the same.
  struct Result {
    RecurrenceResult which;
    Tensor own;
  };
  // own: the project's kernels, results stored. True: the library has written its results to where o says.
  bool forward(const RecurrenceOperands& o, const std::vector<Result>& results, const Kernel& own) {
    return run(&LibraryRecurrence::forward, forward_proved_, true, o, results, own, "");
  }
  bool backward(const RecurrenceOperands& o, const std::vector<Result>& results, const Kernel& own) {
    return run(&LibraryRecurrence::backward, backward_proved_, forward_proved_, o, results, own, " (gradient)");
  }

 private:
  using Direction = bool (LibraryRecurrence::*)(const RecurrenceOperands&);
  bool run(Direction direction, bool& is_proved, bool possible, const RecurrenceOperands& o,
           const std::vector<Result>& results, const Kernel& own, const char* which);
  bool proved(Direction direction, const RecurrenceOperands& operands, const std::vector<Result>& results,
              const char* which);

  CudaDevice& device_;
  Recurrence what_;
  std::shared_ptr<LibraryRecurrence> library_;  // null: dropped
  bool differentiated_ = false, forward_proved_ = false, backward_proved_ = false;
};

}  // namespace amp::cuda
