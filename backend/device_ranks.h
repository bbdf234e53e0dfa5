// DeviceRanks: the ranks of a run where their gradients lie. A sum is work of the device like any other: it happens in
// the order of the calls and can be recorded. All ranks make the same calls in the same order, and get the same bits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/kernel.h"

namespace amp {

class Error;

class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  // Each of them, in place; fp32 or fp64. E_RANK_LOST where another rank is gone.
  virtual void sum(const std::vector<Tensor>& data) = 0;
};

// How the ranks' devices find each other.
struct RankContact {
  int rank = 0, size = 1;
  std::function<void(std::string& bytes)> from_first;  // becomes what rank 0 has, on all ranks
  // Told on a thread of its own, at most once, that sums under way will never end.
  std::function<void(const Error&)> lost;
};

}  // namespace amp
