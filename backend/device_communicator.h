// DeviceCommunicator: collective operations on device memory, used for gradients. They are executed in the order of the
// calls, as other device work, and can be recorded. All ranks must make the same calls in the same order. All ranks get
// results with the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/kernel.h"

namespace amp {

class Error;

struct ElementRange {
  int64_t begin = 0, count = 0;
};

class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  // Sums each fp32 or fp64 tensor over the ranks, in place. Throws E_RANK_LOST if another rank is lost. With local
  // steps (RankContact::local), sums only fp64 tensors, which are loss sums; fp32 tensors (gradients and statistics)
  // stay local. But a value that is not finite on one rank becomes not finite on all ranks, so that all ranks skip the
  // same step.
  virtual void sum(const std::vector<Tensor>& data) = 0;
  // Replaces each element of the fp32 tensors by its mean over the ranks.
  virtual void average(const std::vector<Tensor>& data) = 0;
  // All-gather. Each rank has computed the elements of its range; ranges[r] belongs to rank r. Afterwards each rank has
  // all ranges.
  virtual void gather(const Tensor& data, const std::vector<ElementRange>& ranges) = 0;
};

// The fp32 gradients, and the type in which ranks exchange them. For f16 and bf16, each rank sends its values divided
// by the number of ranks, which keeps the sum in fp16's range.
struct CompressedGradients {
  Tensor arena;
  DType as = DType::f32;
  bool low(const Tensor& t) const { return as != DType::f32 && t.data == arena.data; }
};

// Data that a device needs to connect to the devices of the other ranks.
struct RankContact {
  int rank = 0, size = 1;
  CompressedGradients gradients;
  bool local = false;
  // Replaces `bytes` by rank 0's value on all ranks.
  std::function<void(std::string& bytes)> from_first;
  // Called at most once, on a separate thread, when running sums can no longer complete.
  std::function<void(const Error&)> lost;
};

}  // namespace amp
