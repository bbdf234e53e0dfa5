// Task heads for models that have none. The choice is made by rule, is reported, and can be overridden (--head,
// --head_from, --pooling).
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct HeadOptions {
  // classification, regression, multilabel: linear on [B, H] (pooled from [B, S, H] or [B, C, ...]) -> logits [B, N];
  // token: linear on [B, S, H] -> logits [B, S, N]; span: linear to 2 -> start_logits, end_logits [B, S]; segmentation:
  // 1x1 convolution on [B, C, H, W] -> logits [B, N, H, W]; embedding: [B, S, H] pooled, without weights ->
  // sentence_embedding [B, H], unless the model has one.
  std::string kind = "classification";
  bool always = false;  // --head: add a new head even if an output already fits
  std::string from;     // --head_from: the name of a value; empty: by rule
  // Pooling of hidden states [B, S, H] to [B, H] (importer/surgery/pooling.h). auto: model_pooling for an embedding,
  // else mean.
  std::string pooling = "auto";
  std::string model_pooling;  // pooling that files next to the model specify for its embedding; may be empty
  bool normalize = false;     // with model_pooling: normalize to length 1
  int64_t num_labels = 0;
  double dropout = 0.1;  // before the linear map; none before a segmentation head
  uint64_t seed = 42;    // for the weights: normal, standard deviation 0.02; biases are 0
  // Shapes of floating-point values for a batch of 2 rows (3 tokens), by source value; empty where not computed.
  std::vector<Dims> probe;
};

struct HeadChoice {
  bool needed = false;               // false: an output of the model already does the task
  int source_value = -1;             // the head's input, or the model's own logits
  std::vector<std::string> outputs;  // if not needed: the loss's inputs
  std::string pooling;      // "none", a mode of importer/surgery/pooling.h, or global (all positions of a feature map)
  bool normalized = false;  // an embedding of length 1
  std::string reason;       // message for the user
};

// Rule: an output with one value per class, at the position that the task needs, is the head. Otherwise the head reads
// the last suitable floating-point output that depends on parameters. Pooled heads read [B, H], else [B, S, H], else
// [B, C, H, W]; token and span heads [B, S, H]; segmentation heads [B, C, H, W]. Fails with Exit::unsupported E_HEAD if
// there is none.
HeadChoice choose_head(const SourceGraph& graph, const HeadOptions& options);

// Appends the head: its weights classifier.weight and classifier.bias, and its graph outputs, whose names it returns.
std::vector<std::string> attach_head(SourceGraph& graph, const HeadChoice& choice, const HeadOptions& options);

}  // namespace amp
