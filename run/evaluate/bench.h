// Times a training step kernel by kernel and compares it with the peak of this machine.
#pragma once

#include <string>

#include "base/log.h"
#include "trainer/compile/step_profile.h"

namespace amp {

struct RunSpec;

struct BenchReport {
  StepProfile step;
  std::string device, isa;  // descriptions of the device and the SIMD level
  std::string batch;        // shapes of the inputs: "x [8,3,96,96], label [8]"
  bool synthetic = false;   // the batch was generated from the model's input shapes
  // Peak operations per second of the host's multiply-add units, on the step's number of threads and on one thread.
  // Both are 0 if the step ran on another device.
  double peak = 0, peak_of_one = 0;
  double bf16_peak = 0;  // peak of bf16 dot products; 0 without such an instruction

  double share_of_peak(double flops, double seconds) const { return peak > 0 ? flops / seconds / peak : 0; }
};

// Times a training step: forward, backward and update on the longest micro-batch. The micro-batch is repeated
// `gradient_accumulation_steps` times. Without training data the step uses a synthetic batch
// (run/data/synthetic_data.h) of `batch_size` rows and `max_seq_len` tokens. The weights stay unchanged and nothing is
// written.
BenchReport bench_step(const RunSpec& spec, int steps, const Log& log = {});

// The summed cost of all kernels of one operator.
struct KindTime {
  std::string op;
  int64_t calls = 0;
  NodeWork work;
  double seconds = 0;
};
std::vector<KindTime> by_operator(const StepProfile& step);  // the operator with the longest time comes first

std::string chrome_trace(const BenchReport& report);  // JSON for chrome://tracing and Perfetto

}  // namespace amp
