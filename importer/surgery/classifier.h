// A model's classifier: the last Gemm, MatMul (+ Add) or Conv, which computes the logits. It can be replaced by one of
// another size (--num_labels).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct Classifier {
  int node = -1;               // index of the Gemm, MatMul or Conv
  int weight = -1, bias = -1;  // indices of parameters; bias is -1 if there is none
  int64_t weight_axis = 0;     // axis of the classes in the weight
  int64_t labels = 0;
  bool image = false;  // Conv: classes are axis 1 of its output; otherwise the last axis
};

// Finds the classifier of an output. The search goes backward through Softmax, LogSoftmax, Sigmoid, Relu, poolings,
// Resize, Dropout and views. Returns nullopt if another kind of node computes the output, or if other nodes read the
// weight or bias.
std::optional<Classifier> find_classifier(const SourceGraph& g, int output);

// Replaces the classifier's weight and bias by new ones for `labels` classes, and adjusts the shapes of dependent
// values. The weight is drawn from Normal(0, 0.02) with the seed; the bias is 0. Returns messages for the user.
std::vector<std::string> resize_classifier(SourceGraph& g, const Classifier& c, int64_t labels, uint64_t seed);

}  // namespace amp
