// Of several ways to compute the same convolution the fastest one, timed at first use.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/autotune_cache.h"
#include "backend/cuda/convolution.h"

namespace amp::cuda {

// Milliseconds that the device takes for some work, waited for.
using Stopwatch = std::function<double(const std::function<void()>& work)>;

// Before the first run that may wait, the first candidate. There it times them on a buffer of its own, so that what is
// added to stays what it was; where there is no room for one, the first candidate stays.
class TimedChoice final : public LibraryConvolution {
 public:
  struct Candidate {
    std::string name;  // "NHWC 3": the same in every process
    std::shared_ptr<LibraryConvolution> plan;
  };
  // elements: of what the convolution writes. The store outlives this.
  TimedChoice(CudaDevice& d, const Convolution& what, int64_t elements, std::vector<Candidate> candidates,
              AutotuneStore& store, Stopwatch stopwatch);

  std::string name() const override { return candidates_.front().plan->name(); }
  bool may_wait() const override { return candidates_.front().plan->may_wait(); }
  std::string key() const override;
  bool run(const void* a, const void* b, void* c) override;

 private:
  void choose(const void* a, const void* b);

  CudaDevice& device_;
  Convolution what_;
  int64_t bytes_;
  std::vector<Candidate> candidates_;
  AutotuneStore& store_;
  Stopwatch stopwatch_;
  size_t chosen_ = 0;
  bool settled_ = false;
};

// All that decides how fast a convolution is, for stores: "forward 8 1x32>64 ..., float16".
std::string key_of(const Convolution& what);

// Runs a plan whose operands have their channels last: (N, spatial, channels), weights (M, taps, C). Operands are moved
// into `scratch` (scratch_bytes()) and the result moved back; shared scratch is safe, for work on a device is ordered.
class ChannelsLast final : public LibraryConvolution {
 public:
  ChannelsLast(CudaDevice& d, const Convolution& what, std::shared_ptr<LibraryConvolution> plan, DeviceMemory scratch)
      : device_(d), what_(what), plan_(std::move(plan)), scratch_(std::move(scratch)) {}
  static int64_t scratch_bytes(const Convolution& what);

  std::string name() const override { return plan_->name(); }
  bool may_wait() const override { return plan_->may_wait(); }
  std::string key() const override { return plan_->key(); }
  bool run(const void* a, const void* b, void* c) override;

 private:
  CudaDevice& device_;
  Convolution what_;
  std::shared_ptr<LibraryConvolution> plan_;
  DeviceMemory scratch_;
};

}  // namespace amp::cuda
