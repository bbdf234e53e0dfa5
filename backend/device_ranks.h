// DeviceRanks: the ranks of a run where their gradients lie. A sum is work of the device like any other: it happens in
// the order of the calls and can be recorded. All ranks make the same calls in the same order, and get the same bits.
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

class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  // Each of them, in place; fp32 or fp64. E_RANK_LOST where another rank is gone. Of ranks that take steps of their
  // own (RankContact::local) fp64 alone, which are loss sums: gradients and statistics, fp32, stay a rank's own; but
  // what is not finite on one rank becomes so on all of them, which skip together.
  virtual void sum(const std::vector<Tensor>& data) = 0;
  // Of fp32 tensors each element becomes the mean over the ranks.
  virtual void average(const std::vector<Tensor>& data) = 0;
  // Each rank has computed the elements of its range, in the order of the ranks; all get all of them.
  virtual void gather(const Tensor& data, const std::vector<ElementRange>& ranges) = 0;
};

// Gradients, fp32, and what ranks exchange to sum them: themselves, or 16 bits (f16, bf16) of each value divided by the
// number of ranks, which keeps the sum in fp16's range.
struct SentGradients {
  Tensor arena;
  DType as = DType::f32;
  bool low(const Tensor& t) const { return as != DType::f32 && t.data == arena.data; }
};

// How the ranks' devices find each other.
struct RankContact {
  int rank = 0, size = 1;
  SentGradients gradients;
  bool local = false;
  std::function<void(std::string& bytes)> from_first;  // becomes what rank 0 has, on all ranks
  // Told on a thread of its own, at most once, that sums under way will never end.
  std::function<void(const Error&)> lost;
};

}  // namespace amp
