// A model's own classifier: the last Gemm, MatMul (+ Add) or Conv that makes the logits, and its replacement by one of
// another size (--num_labels).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct Classifier {
  int node = -1;               // Gemm, MatMul or Conv
  int weight = -1, bias = -1;  // parameters; no bias: -1
  int64_t weight_axis = 0;     // of the classes in the weight
  int64_t labels = 0;
  bool image = false;  // Conv: classes are axis 1 of its output, else the last one
};

// The classifier behind an output, found backwards through Softmax, LogSoftmax, Sigmoid, Relu, poolings, Resize,
// Dropout and views. nullopt when something else makes the output, or when the weight or the bias has other readers.
std::optional<Classifier> find_classifier(const SourceGraph& g, int output);

// The weight becomes normal with deviation 0.02 from the seed, the bias 0; shapes of what follows are adjusted. Returns
// lines for people.
std::vector<std::string> resize_classifier(SourceGraph& g, const Classifier& c, int64_t labels, uint64_t seed);

}  // namespace amp
