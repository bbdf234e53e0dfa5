// Tensors from a .safetensors or .npz file, named by graph input, beside `label`. Dimension 0 counts samples, unless
// the file is one whole batch: it has at most batch_size rows, or its tensors differ in rows. Where a loss takes pairs
// or triples of rows, `label` may have a row for each of these: such an item is then a sample.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "data/dataset.h"

namespace amp {

struct TensorOptions {
  int64_t batch_size = 32;
  int64_t rows_per_item = 1;                  // rows of the inputs that a loss takes in turn as one item (a pair: 2)
  std::string label = "label";                // optional in the file; kept in the file's type
  std::vector<std::string> more_labels = {};  // others, not optional
  bool allow_nonfinite = false;               // NaN and infinity in float tensors: otherwise E_DATA_NONFINITE
};

// A whole batch is a dataset of size 1. Tensors that no input asks for are ignored. Errors: an input that is missing:
// E_DATA_COLUMN; of another shape or kind of number: E_DATA_SHAPE.
std::unique_ptr<Dataset> make_tensor_dataset(std::vector<NamedTensor> tensors, const std::string& file_name,
                                             std::vector<InputSpec> inputs, const TensorOptions& options);

}  // namespace amp
