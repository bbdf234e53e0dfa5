// Predicts with a model. For a file of tensors, all graph outputs are written. Rows of text, images or features get one
// prediction each, in the order of the rows: a label, a number, an answer, tags, an embedding or a perplexity.
#pragma once

#include <string>

#include "base/log.h"

namespace amp {

struct RunSpec;

struct PredictReport {
  size_t outputs = 0;  // number of outputs written for a file of tensors
  int64_t rows = 0;    // number of rows of texts, images or features
  std::string task = {};
};

// spec.model.model is a model file or a run's folder. Texts are processed as the model's metadata record, except for
// settings that the user gives.
// out: .csv, .tsv or .jsonl for the input rows with the predictions added (run/evaluate/prediction_file.h), or .npz,
// .npy or .safetensors for arrays.
PredictReport predict(const RunSpec& spec, const std::string& inputs, const std::string& out, const Log& log = {});

}  // namespace amp
