// Gives each module its own tensor where an exporter or optimizer merged tensors of equal values. In an untrained
// network all norm scales are ones and all biases zeros; TorchScript's exporter, onnxsim and onnxslim store one tensor
// per length. Training the merged tensor would train a different model.
//
// Only tensors with one or two distinct values are split, because equal learned values mean one weight. The module that
// a use belongs to is found from the Identity node that kept its tensor's name ("4.bias" of "1.bias"), else from the
// module path of the node that reads the tensor. If neither is known, the tensor remains one weight; only running
// statistics are separated from other kinds of tensors. A module that runs several times is one module.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/doc.h"

namespace amp {

struct SharedUse {
  int node, input;  // index of the node; position among its inputs
};

// Adds a constant named `name`, which must be unused, with the data of value v, and connects the given uses of v to it.
// Export rewires the readers in the file (doc.separated). Returns the new value.
int separate_value(Built& built, ModelDoc& doc, int v, const std::string& name, const std::vector<SharedUse>& uses);

// Gives every module its own value (built.copies, doc.separated). Must run before parameters are discovered.
void split_merged(Built& built, ModelDoc& doc);

// Returns one line for the user that names the weights that were split. The line is empty if there are none.
std::string describe_split(const Built& built);

}  // namespace amp
