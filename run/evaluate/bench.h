// What a training step of a job takes, kernel by kernel, beside what this machine could do.
#pragma once

#include <string>

#include "base/log.h"
#include "run/spec/spec.h"
#include "trainer/compile/step_profile.h"

namespace amp {

struct BenchReport {
  StepProfile step;
  std::string device, isa;  // in words
  std::string batch;        // shapes: "x [8,3,96,96], label [8]"
  bool synthetic = false;   // data that the model's input shapes made
  // Operations a second of the host's multiply-add units on as many threads as the step used, and on one; 0: the step
  // ran on another device.
  double peak = 0, peak_of_one = 0;
  double bf16_peak = 0;  // of pairs of bfloat16, where there is such an instruction

  double share_of_peak(double flops, double seconds) const { return peak > 0 ? flops / seconds / peak : 0; }
};

// The step of a training job: forward, backward and update of the data's longest micro-batch, as often as gradients
// accumulate; without training data of a synthetic one (run/data/synthetic_data.h) of batch_size rows and max_seq_len
// tokens. Weights stay as they are, nothing is written.
BenchReport bench_step(const RunSpec& spec, int steps, const Log& log = {});

// Kernels of one kind, or all.
struct KindTime {
  std::string op;
  int64_t calls = 0;
  NodeWork work;
  double seconds = 0;
};
std::vector<KindTime> by_operator(const StepProfile& step);  // the longest first

std::string chrome_trace(const BenchReport& report);  // JSON for chrome://tracing and Perfetto

}  // namespace amp
