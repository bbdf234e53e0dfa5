// Datasets from the tensors of a .safetensors or .npz file, named by graph input, and `label`. Dimension 0 counts
// samples, unless the file is one whole batch: it has at most batch_size rows, or its tensors differ in rows. If a loss
// reads pairs or triples of rows, `label` may have one row for each of these; such an item is then a sample.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "data/dataset.h"

namespace amp {

struct TensorOptions {
  int64_t batch_size = 32;
  int64_t rows_per_item = 1;                  // consecutive input rows that a loss reads as one item (a pair: 2)
  std::string label = "label";                // name; may be missing; keeps the file's type
  std::vector<std::string> more_labels = {};  // additional labels; must exist
  bool allow_nonfinite = false;               // accepts NaN and infinity; otherwise E_DATA_NONFINITE
};

// A whole batch is a dataset of size 1. Tensors that no input reads are ignored. Throws E_DATA_COLUMN for a missing
// input, and E_DATA_SHAPE for another shape or kind of number.
std::unique_ptr<Dataset> make_tensor_dataset(std::vector<NamedTensor> tensors, const std::string& file_name,
                                             std::vector<InputSpec> inputs, const TensorOptions& options);

}  // namespace amp
