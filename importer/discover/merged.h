// Tensors that an exporter or optimizer merged because their values were equal: in a fresh network all norm scales are
// ones, all biases zeros, and TorchScript's exporter, onnxsim and onnxslim store each length once. Trained as one they
// are another model than the author's, so each module gets its own.
//
// Only tensors whose elements are equal, or of two values, are taken apart: equal learned values mean one weight.
// Whose a use is says the Identity node that kept the name ("4.bias" of "1.bias"), else the module path in the
// reading node's name; where neither is known, one tensor stays one weight, except that a running statistic is never
// shared with what is none. A module that runs several times is one module.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/doc.h"

namespace amp {

struct SharedUse {
  int node, input;  // input: its position among the node's inputs
};

// Adds a constant with the data of value v under the name `name`, which must be fresh, for these uses of v. The export
// rewires the readers (doc.separated). Returns the new value.
int separate_value(Built& built, ModelDoc& doc, int v, const std::string& name, const std::vector<SharedUse>& uses);

// Gives every module its own value (built.copies, doc.separated). Before anybody decides what the values are.
void split_merged(Built& built, ModelDoc& doc);

// A line that names the weights that were taken apart; empty when none were.
std::string describe_split(const Built& built);

}  // namespace amp
