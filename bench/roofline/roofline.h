// The launches of a training step on a described GPU, and the least time for their bytes and operations. They are
// derived from the graph on any machine. Nothing is measured.
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
  double dropout = 0;       // dropout of attention probabilities, as insert_dropout() adds it
  DType low = DType::bf16;  // f32: no precision plan
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
  LossSpec loss;  // default outputs: "logits"; default label: "label"
  bool batch_statistics = false;
  DType low = DType::bf16;
  cuda::DryOptions device;
};

struct StepWork {
  std::vector<cuda::Work> micro;                // the recorded micro-batch, in order
  std::vector<cuda::Work> update;               // the recorded update
  std::vector<cuda::Work> around;               // work outside the recordings: uploads, seeds, loss terms
  std::vector<cuda::Attention> attentions;      // requested from a library
  std::vector<cuda::Convolution> convolutions;  // requested from a library
  int64_t parameters = 0;                       // number of trained parameters

  int64_t nodes() const;  // nodes of the recorded graphs
};
StepWork step_work(const StepRequest& r);
StepWork step_work(const UnetRequest& r);
StepWork step_work(const ModelRequest& r);

struct DeviceDescription {
  std::string name;
  double bandwidth = 0;            // bytes per second
  double flops_of(DType t) const;  // operations per second in matrix products of type t
  double node_seconds = 0;         // time that each node of a recorded graph adds
  std::vector<std::pair<std::string, double>> tflops;
};
DeviceDescription read_device(const std::string& json);

double least_seconds(const cuda::Work& w, const DeviceDescription& d);

struct KindTotal {
  std::string op;
  int64_t nodes = 0, bytes = 0;
  double flops = 0, seconds = 0;
};
std::vector<KindTotal> totals(const std::vector<cuda::Work>& work, const DeviceDescription& d);  // longest first

}  // namespace amp
