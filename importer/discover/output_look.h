// What a model's outputs look like, where they are not those of a classifier: boxes of a detector, heat maps, depth,
// scores at every step of a sequence. Such a model is not given a pooled classifier by itself.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct OutputLook {
  std::string output;  // its name; empty: nothing speaks against a classifier
  std::string what;    // "boxes or anchors of a detector"
  std::string why;     // "a Concat of 3 convolutions' maps"
  explicit operator bool() const { return !output.empty(); }
};

// dims: shapes by value for a small batch, empty where unknown. Judged are models that read images (an input of rank
// 4). Hidden states and feature maps, which a new head may pool, end in a normalization, an activation, a residual sum
// or a recurrent layer; predictions end in a convolution or a linear map, with a sigmoid, softmax or arithmetic of
// boxes behind it at most. Names of outputs count, too. pooled: for a task with one answer an image; else only what
// no loss fits by default (a map [B, C, H, W] is fine).
OutputLook look_at_outputs(const SourceGraph& g, const std::vector<Dims>& dims, bool pooled);

}  // namespace amp
