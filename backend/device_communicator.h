// DeviceCommunicator: collectives on device memory, used for gradients. A sum is device work like any other: it is
// executed in the order of the calls and can be recorded. All ranks make the same calls in the same order and get
// the same bits.
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
  // Sums each tensor in place; fp32 or fp64. E_RANK_LOST if another rank is lost. With local steps
  // (RankContact::local) only fp64 tensors, the loss sums, are summed. fp32 tensors (gradients and statistics) stay
  // local, but a value that is not finite on one rank becomes so on all ranks, so that all skip together.
  virtual void sum(const std::vector<Tensor>& data) = 0;
  // Replaces each element of the fp32 tensors by its mean over the ranks.
  virtual void average(const std::vector<Tensor>& data) = 0;
  // All-gather: each rank has computed the elements of its range, ranges in the order of the ranks. All ranks get
  // all of them.
  virtual void gather(const Tensor& data, const std::vector<ElementRange>& ranges) = 0;
};

// fp32 gradients and the type in which ranks exchange them: fp32, or 16 bits (f16, bf16) of each value divided by
// the number of ranks, which keeps the sum in fp16's range.
struct CompressedGradients {
  Tensor arena;
  DType as = DType::f32;
  bool low(const Tensor& t) const { return as != DType::f32 && t.data == arena.data; }
};

// Contact data for connecting the devices of all ranks.
struct RankContact {
  int rank = 0, size = 1;
  CompressedGradients gradients;
  bool local = false;
  std::function<void(std::string& bytes)> from_first;  // replaces `bytes` by rank 0's value on all ranks
  // Called on a separate thread, at most once, when sums in progress will not complete.
  std::function<void(const Error&)> lost;
};

}  // namespace amp
