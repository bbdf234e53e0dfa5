// The training and validation data that the flags name, as datasets for a model's inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sampler.h"
#include "graph/source.h"
#include "tools/cli/options.h"

namespace amp {

struct TrainData {
  std::unique_ptr<Dataset> train, val;     // val: null without --val
  std::vector<std::string> classes;        // text classification: label names, sorted by bytes
  bool text = false;
  bool whole_batch = false;                // a tensors file that is one batch
};

bool is_text_file(const std::string& path);
std::vector<std::string> read_classes(const cli::Options& opts);   // of the training table

// inputs: source values of the graph inputs that the data must feed. classes: known labels (from read_classes, or a model's
// metadata when only validation data is read). Also checks token ids against embedding tables.
std::unique_ptr<Dataset> open_dataset(const cli::Options& opts, const std::string& path, const SourceGraph& graph,
                                      const std::vector<int>& inputs, const std::vector<std::string>& classes, int64_t batch_size);

SamplerOptions sampler_options(const cli::Options& opts, bool text);

}  // namespace amp
