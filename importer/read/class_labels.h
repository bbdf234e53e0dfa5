// Class labels that a model file stores: attributes of ai.onnx.ml operators, and the label table that scikit-learn's
// converter (skl2onnx) writes.
#pragma once

#include <string>
#include <vector>

namespace amp {

struct ModelDoc;

// Returns the labels in the order of class ids, numbers as text. Empty if the graph has no list of labels, or several
// lists that differ.
std::vector<std::string> class_labels(const ModelDoc& doc);

}  // namespace amp
