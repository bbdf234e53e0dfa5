// Restores the dropout of the architecture, which inference exports removed. The positions of dropout are recognized in
// the SourceGraph, and a Dropout node of Place::training is inserted at each. It is active during training and is not
// exported. Its attribute `site` identifies its random stream. The positions are:
//
//    attention  probabilities: after a Softmax over a product of two activations (NaN guards and views are skipped),
//               before the product with V; Attention operators get the ratio as an attribute
//    residual   a linear map's output (followed only by views and a layer scale) that is added to its input
//    embeddings the start of a residual stream: the embeddings' norm, or their sum; before a projection of them
//    head       the input of an output's classifier in a model of tokens, unless it is a language model's
//
// Only models with attention get dropout. If a file has Dropout nodes, these are activated instead, with the file's
// ratio or, without one, --dropout's; nothing is inserted. Models with rotary positions (llama, qwen, modernbert) were
// trained without dropout: they get it only on request.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct DropoutOptions {
  double ratio = 0.1;        // > 0
  bool asked = false;        // --dropout was given
  std::vector<int> outputs;  // the trained outputs; nodes that these do not need are not changed
};

struct DropoutSpot {
  std::string kind;  // attention, residual, embeddings, head, file
  std::string node;  // name of the node to whose output dropout is applied
  double ratio = 0;
};

// Inserts the nodes and returns their positions, sorted by kind, then in graph order. notes: receives messages for the
// user.
std::vector<DropoutSpot> insert_dropout(SourceGraph& g, const DropoutOptions& options, std::vector<std::string>& notes);

// Returns one line per kind and ratio, such as "dropout 0.1 on attention: 3 ('/a/Softmax', ...)".
std::vector<std::string> describe_dropout(const std::vector<DropoutSpot>& spots);

}  // namespace amp
