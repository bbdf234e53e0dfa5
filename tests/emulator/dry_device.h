// A CudaDevice that launches nothing: it notes every launch, product, copy and clear that a step would make, with the
// bytes and operations that the work needs at least. Its memory has addresses and nothing behind them, so that models
// of any size can be looked at on any machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/attention.h"
#include "backend/cuda/convolution.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

// A node of a recorded step, or several of one operator (launches).
struct Work {
  std::string op;                    // "AddNorm", "update: Apply"
  DType type = DType::f32;           // of its operands
  int64_t launches = 0, copies = 0;  // kernels and products; copies and clears
  int64_t bytes = 0;                 // operands read and results written, once each (backend/node_work.h)
  double flops = 0;                  // of products, attention included
  double products = 0;               // of those that were launched as a library's
  std::string shape;                 // of a product: "4096x3072x768"; of a convolution, its key
};

struct DryOptions {
  int multiprocessors = 132;
  bool epilogues = true;  // the library of products computes sums and GELU in the same launch
};

class DryDevice : public CudaDevice {
 public:
  virtual std::vector<Work>& work() = 0;  // since it was cleared, in order
  virtual bool recorded() const = 0;      // whether the last work was asked for as a recording
  // What a library of attention was asked for, in order; it has none of them.
  virtual const std::vector<Attention>& attentions() const = 0;
  // What a library of convolutions was asked for, in order.
  virtual const std::vector<Convolution>& convolutions() const = 0;
};

std::unique_ptr<DryDevice> make_dry_device(const DryOptions& options = {});

}  // namespace amp::cuda
