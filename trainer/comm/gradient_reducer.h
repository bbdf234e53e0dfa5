// Sums gradients over the ranks while backward runs, as PyTorch's DistributedDataParallel does (Li et al. 2020,
// arXiv:2006.15704). The gradient arena is divided into buckets. Each bucket is summed as soon as the last micro-batch
// of the accumulation step has finished the bucket's gradients.
//
// All ranks start buckets in the order in which rank 0 finished them in the first step. A rank without samples in the
// step starts its buckets at the end of the step. The bits of the sums depend neither on this order nor on the division
// into buckets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "backend/gradient_watch.h"
#include "trainer/comm/communicator.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

class GradientReducer final : public GradientWatch {
 public:
  // grads: layout.trained_size() fp32 elements in host memory. sent: see RankSum::sent.
  GradientReducer(Communicator& ranks, const FlatLayout& layout, DeviceMemory grads, DType sent = DType::f32);

  void begin() override;
  void done(int slot, const Tensor* rows) override;
  bool sums(const void* data) const { return data == grads_.get(); }
  // Delays the sums of all buckets until start(). Called before the ranks sum something else.
  void hold() { held_ = true; }
  void start();   // starts the sums of all remaining buckets; called before any other sum starts
  void finish();  // collective; waits for all buckets. Throws E_RANK_LOST

  // Times of the last finished step.
  struct Span {  // seconds of the steady clock
    double begin = 0, seconds = 0;
    int64_t elements = 0;  // number of elements that were summed; only set in Cost::sums
  };
  struct Cost {
    double seconds = 0, waited = 0;  // duration of all sums; time that finish() waited for them
    // run: backward pass of the last micro-batch (0: it reported no gradients). wait: finish()'s wait for the sums.
    Span run, wait;
    std::vector<Span> sums;
  };
  const Cost& cost() const { return cost_; }

 private:
  struct Bucket {
    // begin, end: elements of the arena. columns: number of columns if the bucket is a matrix in which few rows may be
    // nonzero; else 0
    int64_t begin = 0, end = 0, columns = 0;
    // slots: number of parameters. dense: number of past sums in which too many rows were nonzero
    int slots = 0, dense = 0;
    std::optional<std::vector<int32_t>> rows = {};  // nonzero rows of this step, if the operator reported them
  };
  void cut(const FlatLayout& layout);
  void start_finished();
  void agree_on_order();

  Communicator& ranks_;
  DeviceMemory grads_;
  const DType sent_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // indexed by slot (parameter): index of its bucket; -1: the parameter is frozen
  std::vector<int> order_;      // indices of buckets in the order in which they are started
  bool agreed_ = false, held_ = false;
  double began_ = 0;  // start of the backward pass; 0: none is running
  Cost cost_;

  struct Started {
    std::shared_ptr<RankSum> sum;
    Communicator::Handle handle;
    int bucket = 0;
  };
  // State of the current step:
  std::vector<int> open_;      // indexed by bucket: number of parameters whose gradients are unfinished
  std::vector<int> finished_;  // indices of buckets in the order of completion
  size_t next_ = 0;            // index into order_
  std::vector<Started> started_;
};

}  // namespace amp
