// Class labels that a graph itself holds: the attributes of ai.onnx.ml operators, and the table from which scikit-
// learn's converters take the label that they output.
#pragma once

#include <string>
#include <vector>

namespace amp {

struct ModelDoc;

// By class id; numbers as text. Empty when the graph holds none, or several lists that differ.
std::vector<std::string> class_labels(const ModelDoc& doc);

}  // namespace amp
