// Adds task heads to models that have none. Rules choose the value that the head reads; the choice is reported, and
// flags can override it (--head, --head_from, --pooling).
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct HeadOptions {
  // One of:
  //   classification, regression, multilabel   linear on [B, H] (pooled from [B, S, H] or [B, C, ...]) -> logits [B, N]
  //   token         linear on [B, S, H] -> logits [B, S, N]
  //   span          linear to 2 -> start_logits, end_logits [B, S]
  //   segmentation  1x1 convolution on [B, C, H, W] -> logits [B, N, H, W]
  //   embedding     [B, S, H] pooled, without weights -> sentence_embedding [B, H], unless the model has one
  std::string kind = "classification";
  bool always = false;  // --head: add a new head even if an output already fits
  std::string from;     // --head_from: name of the value to read; empty: choose_head() chooses
  // Pooling of hidden states [B, S, H] to [B, H] (importer/surgery/pooling.h). auto: model_pooling for an embedding,
  // else mean.
  std::string pooling = "auto";
  std::string model_pooling;  // pooling that files next to the model specify for its embedding; may be empty
  bool normalize = false;     // scale embeddings to length 1; used with model_pooling
  int64_t num_labels = 0;
  double dropout = 0.1;  // dropout before the linear map; not used before a segmentation head
  uint64_t seed = 42;    // seed of the weights: normal, standard deviation 0.02; biases are 0
  // Shapes of floating-point values for a batch of 2 samples, by source value; empty where not computed. -1: the dim
  // depends on the number of tokens or on the size of the image.
  std::vector<Dims> probe;
};

struct HeadChoice {
  bool needed = false;               // false: an output of the model already does the task
  int source_value = -1;             // index of the head's input, or of the model's own logits
  std::vector<std::string> outputs;  // the model's outputs that the loss reads; empty if needed
  std::string pooling;      // "none", a mode of importer/surgery/pooling.h, or global (all positions of a feature map)
  bool normalized = false;  // the head's output is an embedding of length 1
  std::string reason;       // message for the user
};

// Chooses the output that is the head, or the value that a new head reads. An output with one value per class, on the
// axis that the task needs, is the head. Otherwise the new head reads the last suitable floating-point output that
// depends on parameters. Pooled heads read [B, H], else [B, S, H], else [B, C, H, W]; token and span heads read [B, S,
// H]; segmentation heads read [B, C, H, W]. Throws E_HEAD (Exit::unsupported) if there is no such value.
HeadChoice choose_head(const SourceGraph& graph, const HeadOptions& options);

// Appends the head with the weights classifier.weight and classifier.bias. Returns the names of its graph outputs.
std::vector<std::string> attach_head(SourceGraph& graph, const HeadChoice& choice, const HeadOptions& options);

}  // namespace amp
