// Datasets made of the tensors of a .safetensors or .npz file. A tensor is named after the graph input that it feeds,
// and `label` holds the labels. Dimension 0 counts samples. However, the file is one whole batch if it has at most
// batch_size rows or if its tensors differ in rows. If a loss reads pairs or triples of rows, `label` may have one row
// per pair or triple, which is then one sample.
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
  std::string label = "label";                // name of the tensor of labels, which may be missing; its type is kept
  std::vector<std::string> more_labels = {};  // names of tensors with additional labels; they must exist
  bool allow_nonfinite = false;               // accepts NaN and infinity; otherwise E_DATA_NONFINITE
};

// Throws E_DATA_SHAPE if a tensor of this name has another kind of number or shape than the graph's input of the name.
void check_input_tensor(const std::string& file_name, const std::vector<InputSpec>& inputs, const std::string& name,
                        DType dtype, const Dims& dims);

// Makes the dataset. A file that is a whole batch is a dataset of size 1. Tensors that no input reads are ignored.
// Throws E_DATA_COLUMN for a missing input, and E_DATA_SHAPE for another shape or kind of number.
std::unique_ptr<Dataset> make_tensor_dataset(std::vector<NamedTensor> tensors, const std::string& file_name,
                                             std::vector<InputSpec> inputs, const TensorOptions& options);

}  // namespace amp
