// Dropout where the architecture had it. Inference exports lost it; these places are recognised in the SourceGraph, and
// a Dropout node of Place::training is put there (attribute `site`: it acts while training, and is never exported).
//
//   attention  probabilities: behind a Softmax over a product of two activations (NaN guards and views passed), before
//              the product with V; Attention operators get it as an attribute
//   residual   a linear map's output (behind it only views and a layer scale) that is added to what it was computed
//   from embeddings where a residual stream begins: the embeddings' norm, or their sum; before a projection of them
//   head       what the classifier of an output reads in a model of tokens, unless it is a language model's
//
// Only models with attention get any. A file that has Dropout nodes says itself where: then these act, with the file's
// ratio or --dropout's when it names none, and nothing is inserted. Models with rotary positions (llama, qwen,
// modernbert) were trained without dropout: there it is inserted only when asked for.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct DropoutOptions {
  double ratio = 0.1;        // > 0
  bool asked = false;        // --dropout was given
  std::vector<int> outputs;  // what is trained: nodes that these do not need are left alone
};

struct DropoutSpot {
  std::string kind;  // attention, residual, embeddings, head, file
  std::string node;  // the node whose output is dropped
  double ratio = 0;
};

// Sorted by kind, then in the order of the graph. notes: lines for people.
std::vector<DropoutSpot> insert_dropout(SourceGraph& g, const DropoutOptions& options, std::vector<std::string>& notes);

// "dropout 0.1 on attention: 3 ('/a/Softmax', ...)", a line a kind and ratio.
std::vector<std::string> describe_dropout(const std::vector<DropoutSpot>& spots);

}  // namespace amp
