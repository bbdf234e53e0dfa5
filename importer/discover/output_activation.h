// Finds the activation after a model's logits, class probabilities, and a loss that the model computes itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// The activation that produces a value: a Softmax or LogSoftmax over the classes (the last axis, or axis 1 of [B, C,
// ...]), or a Sigmoid. Identity nodes and floating-point Casts after the activation are skipped.
struct OutputActivation {
  std::string op;   // "Softmax", "LogSoftmax" or "Sigmoid"
  int logits = -1;  // index of the activation's input value
};
std::optional<OutputActivation> output_activation(const SourceGraph& graph, int value);

// True if the value (B, C) holds class probabilities in one of the forms of scikit-learn's exports. These are rows that
// a Normalizer divided by their sum, the pair of 1 - p and p, or the output of a LinearClassifier (ai.onnx.ml).
// output_activation() does not find them.
bool ends_in_probabilities(const SourceGraph& graph, int value);

// Returns the losses that the model computes: floating-point outputs that depend on a trainable parameter and have one
// element by their declared shape. If some of them are named loss (or end in it: "lm_loss"), only these are returned.
std::vector<int> own_losses(const SourceGraph& graph);

}  // namespace amp
