// Recognizes outputs that are not those of a classifier: boxes of a detector, heat maps, depth, scores at every step of
// a sequence. Such a model does not get a pooled classifier without a flag.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct OutputEvidence {
  std::string output;  // name of the output; empty if nothing contradicts a classifier
  std::string what;    // such as "boxes or anchors of a detector"
  std::string why;     // such as "a Concat of 3 convolutions' maps"
  explicit operator bool() const { return !output.empty(); }
};

// Returns the evidence that an output is not a classifier's, or an empty OutputEvidence. Only models that read images
// (an input of rank 4) are examined. Features that a new head may pool end in a normalization, an activation, a
// residual sum or a recurrent layer. Predictions end in a convolution or a linear map, followed at most by a sigmoid,
// softmax or box arithmetic. Names of outputs are evidence as well.
//
// dims: the shape of each value for a small batch, empty where unknown.
// pooled: true for a task with one answer per image. If it is false, a map [B, C, H, W] is accepted, and only outputs
//     that fit no default loss are reported.
OutputEvidence inspect_outputs(const SourceGraph& g, const std::vector<Dims>& dims, bool pooled);

}  // namespace amp
