// What a model predicts: every graph output for a file of tensors; for the text files that training reads labels,
// numbers, answers, tags, embeddings or perplexities, a row each, in the rows' order.
#pragma once

#include <string>

#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

struct PredictReport {
  size_t outputs = 0;  // of a file of tensors: how many were written
  int64_t rows = 0;    // of a text file
  std::string task = {};
};

// spec.model: a model file, or a run's folder. Text goes the way that the model's metadata record, but for what was
// asked for; out: .csv, .tsv, .jsonl with the rows as they were and the predictions beside them
// (run/evaluate/prediction_file.h), or arrays in .npz, .npy, .safetensors.
PredictReport predict(const RunSpec& spec, const std::string& inputs, const std::string& out, const Log& log = {});

}  // namespace amp
