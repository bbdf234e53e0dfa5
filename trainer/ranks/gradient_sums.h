// Sums of gradients over the ranks that go on while backward computes the rest (as PyTorch's DistributedDataParallel
// does; Li et al. 2020, arXiv:2006.15704): the arena of gradients is cut into buckets, and each is summed as soon as
// the window's last micro-batch has finished its gradients.
//
// Buckets are started in one order on all ranks: that in which the first rank's gradients were finished in the first
// window. A rank that has nothing to compute starts them when the window ends. Neither order nor cut change a bit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "backend/gradient_watch.h"
#include "trainer/collective.h"
#include "trainer/flat_layout.h"

namespace amp {

class GradientSums final : public GradientWatch {
 public:
  // grads: layout.trained_size() elements of fp32 in the host's memory. sent: RankSum::sent.
  GradientSums(Collective& ranks, const FlatLayout& layout, DeviceMemory grads, DType sent = DType::f32);

  void begin() override;
  void done(int slot, const Tensor* rows) override;
  bool sums(const void* data) const { return data == grads_.get(); }
  void hold() { held_ = true; }  // nothing more before start(): ranks sum something else within that run
  void start();                  // all that has not been, in front of any other sum
  void finish();                 // waits for all; by all ranks together. E_RANK_LOST

  // Of the window that was finished last.
  struct Span {  // seconds of the steady clock
    double begin = 0, seconds = 0;
    int64_t elements = 0;  // of a sum
  };
  struct Cost {
    double seconds = 0, waited = 0;  // that sums were under way; that finish() waited for them
    // The run of the last micro-batch, whose gradients are told as they are finished (0: none are told); the wait.
    Span run, wait;
    std::vector<Span> sums;
  };
  const Cost& cost() const { return cost_; }

 private:
  struct Bucket {
    int64_t begin = 0, end = 0, columns = 0;  // columns: of a matrix that may have few rows that are not zero; else 0
    int slots = 0, dense = 0;                 // dense: how often its rows were too many
    std::optional<std::vector<int32_t>> rows = {};  // of this window, where they were told
  };
  void cut(const FlatLayout& layout);
  void start_finished();
  void agree_on_order();

  Collective& ranks_;
  DeviceMemory grads_;
  const DType sent_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by slot; -1: it does not train
  std::vector<int> order_;      // of buckets
  bool agreed_ = false, held_ = false;
  double began_ = 0;  // the run; 0: none is under way
  Cost cost_;

  struct Started {
    std::shared_ptr<RankSum> sum;
    Collective::Handle handle;
    int bucket = 0;
  };
  // Of this window:
  std::vector<int> open_;      // by bucket: slots that are not done
  std::vector<int> finished_;  // buckets, as they were
  size_t next_ = 0;            // in order_
  std::vector<Started> started_;
};

}  // namespace amp
