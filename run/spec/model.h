// ModelSpec: settings of the model: the file, its head, and which parameters train.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct ModelSpec {
  std::string model;   // path of the ONNX file
  std::string output;  // graph output that the loss reads; empty: chosen by rule
  std::string head_from, pooling = "auto", head = "auto", cut_at;
  int64_t num_labels = 0;  // 0: from the data or the model
  Default<double> dropout{0.1};
  std::vector<std::string> freeze, trainable;  // globs of parameter names
  int64_t freeze_layers = -1;                  // -1: none
  std::string lora;                            // "r=8,alpha=16,..."; empty: none
  std::string adapter;                         // .onnx_adapter file or PEFT folder to start from; empty: none
  Default<std::string> batchnorm{"freeze"};
  std::string tie_weights = "auto", past = "empty";
  bool train_quantized = false, straight_through = true;
};

}  // namespace amp
