// BERT for sequence classification as an exporter writes it, from its configuration. All weights are zero.
#pragma once

#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct BertConfig {
  int64_t layers = 12, hidden = 768, heads = 12, intermediate = 3072, vocabulary = 30522, positions = 512, classes = 2;
  bool mask = false;  // attention_mask is an input; padding is masked by the most negative number
};

SourceGraph bert_graph(const BertConfig& c);
Tensors bert_batch(const BertConfig& c, int64_t batch,
                   int64_t length);  // input_ids (B, S), label (B); the mask is all ones

}  // namespace amp
