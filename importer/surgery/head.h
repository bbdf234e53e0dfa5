// Heads: what turns a model without a task of its own into one with it. The choice is made by rule, shown, and can be
// overridden (--head, --head_from, --pooling).
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct HeadOptions {
  // classification, regression, multilabel: linear on [B, H] (pooled when it reads [B, S, H] or [B, C, ...]) -> logits
  // [B, N]; token: linear on [B, S, H] -> logits [B, S, N]; span: linear to 2 -> start_logits, end_logits [B, S];
  // segmentation: 1x1 convolution on [B, C, H, W] -> logits [B, N, H, W]; embedding: [B, S, H] pooled, without weights
  // -> sentence_embedding [B, H], unless the model has one.
  std::string kind = "classification";
  bool always = false;  // --head: a new head also where an output fits already
  std::string from;     // --head_from: a value's name; empty: by rule
  // How hidden states [B, S, H] become [B, H] (importer/surgery/pooling.h); auto: model_pooling for an embedding, else mean.
  std::string pooling = "auto";
  std::string model_pooling;  // what files beside the model say of its embedding; empty: nothing
  bool normalize = false;     // with model_pooling: to length 1
  int64_t num_labels = 0;
  double dropout = 0.1;  // before the linear map; none before a segmentation head
  uint64_t seed = 42;    // of the weights: normal, standard deviation 0.02; biases are 0
  // Shapes of float values for a batch of 2 rows (3 tokens), by source value; empty where not computed.
  std::vector<Dims> probe;
};

struct HeadChoice {
  bool needed = false;               // false: an output of the model does the task already
  int source_value = -1;             // what the head reads, or the model's own logits
  std::vector<std::string> outputs;  // not needed: what the loss takes
  std::string pooling;      // "none", a mode of importer/surgery/pooling.h, or global (all places of a feature map)
  bool normalized = false;  // an embedding of length 1
  std::string reason;       // for people
};

// Rule: an output that has one value per class where the task wants them is the head. Else, of the float outputs that
// depend on parameters, pooled heads read the last [B, H], else the last [B, S, H], else the last [B, C, H, W]; token
// and span the last [B, S, H], segmentation the last [B, C, H, W]. Exit::unsupported (E_HEAD) when nothing fits.
HeadChoice choose_head(const SourceGraph& graph, const HeadOptions& options);

// Appends the head: its weights classifier.weight and classifier.bias, its graph outputs; returns their names.
std::vector<std::string> attach_head(SourceGraph& graph, const HeadChoice& choice, const HeadOptions& options);

}  // namespace amp
