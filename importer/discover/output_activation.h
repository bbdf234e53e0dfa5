// How a model ends: the activation after its logits, and the loss that it computes itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// A Softmax or LogSoftmax over the classes (the last axis, or axis 1 of [B, C, ...]), or a Sigmoid, that makes a value;
// Identity and floating Casts after it are looked through.
struct OutputActivation {
  std::string op;   // "Softmax", "LogSoftmax", "Sigmoid"
  int logits = -1;  // what it reads
};
std::optional<OutputActivation> output_activation(const SourceGraph& graph, int value);

// Whether the value (B, C) holds probabilities of classes that no activation above makes: rows that
// a Normalizer divided by their sum, 1 - p beside p, or the output of a LinearClassifier
// (ai.onnx.ml). scikit-learn's models are exported so.
bool ends_in_probabilities(const SourceGraph& graph, int value);

// Floating outputs of one element that depend on a trainable parameter, by their declared shape; where some are called
// loss (or end so: "lm_loss"), only these.
std::vector<int> own_losses(const SourceGraph& graph);

}  // namespace amp
