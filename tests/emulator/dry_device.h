// A CudaDevice that computes nothing. It records every launch, product, copy and clear of a step, with the least number
// of bytes and operations of the work. Its memory has addresses but no storage, so models of any size can be examined
// on any machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/attention.h"
#include "backend/cuda/convolution.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

// A node of a recorded step, or several nodes of one operator.
struct Work {
  std::string op;                    // "AddNorm", "update: Apply"
  DType type = DType::f32;           // type of its operands
  int64_t launches = 0, copies = 0;  // launches: of kernels and products; copies: also clears
  int64_t bytes = 0;                 // operands read and results written, once each (backend/node_work.h)
  double flops = 0;                  // operations of products, including attention
  double products = 0;               // operations that were launched as a library's products
  std::string shape;                 // a product's "4096x3072x768", or a convolution's key
};

struct DryOptions {
  int multiprocessors = 132;
  bool epilogues = true;  // the library of products computes sums and GELU in the same launch
};

class DryDevice : public CudaDevice {
 public:
  virtual std::vector<Work>& work() = 0;  // the work since this list was last cleared, in order
  virtual bool recorded() const = 0;      // whether record() was called
  // Requests for attention by a library, in order. All are refused.
  virtual const std::vector<Attention>& attentions() const = 0;
  // Requests for convolutions by a library, in order.
  virtual const std::vector<Convolution>& convolutions() const = 0;
};

std::unique_ptr<DryDevice> make_dry_device(const DryOptions& options = {});

}  // namespace amp::cuda
