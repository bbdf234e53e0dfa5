// What a training step would launch on a described GPU, and the least time that its bytes and operations would need
// there: from the graph alone, on any machine. Nothing here is measured.
#pragma once

#include <string>
#include <vector>

#include "bench/roofline/bert.h"
#include "bench/roofline/unet.h"
#include "tests/emulator/dry_device.h"
#include "trainer/compile/session.h"

namespace amp {

struct StepRequest {
  BertConfig model;
  int64_t batch = 32, length = 128;
  double dropout = 0;       // of attention: the one place that insert_dropout() finds in this graph
  DType low = DType::bf16;  // f32: no plan
  cuda::DryOptions device;
};
struct UnetRequest {
  UnetConfig model;
  int64_t batch = 16, side = 256;  // square images
  DType low = DType::bf16;
  cuda::DryOptions device;
};

struct ModelRequest {
  SourceGraph source;
  Tensors batch;
  LossSpec loss;  // without outputs: of "logits"; without a label: of "label"
  bool batch_statistics = false;
  DType low = DType::bf16;
  cuda::DryOptions device;
};

struct StepWork {
  std::vector<cuda::Work> micro;                // the recorded micro-batch, in order
  std::vector<cuda::Work> update;               // the recorded update
  std::vector<cuda::Work> around;               // work outside the recordings: uploads, seeds, loss terms
  std::vector<cuda::Attention> attentions;      // that a library was asked for
  std::vector<cuda::Convolution> convolutions;  // the same
  int64_t parameters = 0;                       // that train

  int64_t nodes() const;  // of the recorded graphs
};
StepWork step_work(const StepRequest& r);
StepWork step_work(const UnetRequest& r);
StepWork step_work(const ModelRequest& r);

struct DeviceDescription {
  std::string name;
  double bandwidth = 0;            // bytes a second
  double flops_of(DType t) const;  // a second, of products
  double node_seconds = 0;         // from one node of a recorded graph to the next
  std::vector<std::pair<std::string, double>> tflops;
};
DeviceDescription read_device(const std::string& json);

double least_seconds(const cuda::Work& w, const DeviceDescription& d);

struct KindTotal {
  std::string op;
  int64_t nodes = 0, bytes = 0;
  double flops = 0, seconds = 0;
};
std::vector<KindTotal> totals(const std::vector<cuda::Work>& work, const DeviceDescription& d);  // the longest first

}  // namespace amp
