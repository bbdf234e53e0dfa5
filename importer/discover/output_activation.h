// The end of a model: the activation after its logits, and a loss that the model computes itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// A Softmax or LogSoftmax over the classes (the last axis, or axis 1 of [B, C, ...]) or a Sigmoid that produces a
// value. Identity nodes and floating-point Casts after it are skipped.
struct OutputActivation {
  std::string op;   // "Softmax", "LogSoftmax", "Sigmoid"
  int logits = -1;  // the activation's input
};
std::optional<OutputActivation> output_activation(const SourceGraph& graph, int value);

// True if the value (B, C) holds class probabilities in one of the forms of scikit-learn's exports. These are rows that
// a Normalizer divided by their sum, the pair of 1 - p and p, or the output of a LinearClassifier (ai.onnx.ml).
// output_activation() does not find them.
bool ends_in_probabilities(const SourceGraph& graph, int value);

// Floating-point outputs that depend on a trainable parameter and have one element by their declared shape. If some are
// named loss (or end in it: "lm_loss"), only these.
std::vector<int> own_losses(const SourceGraph& graph);

}  // namespace amp
