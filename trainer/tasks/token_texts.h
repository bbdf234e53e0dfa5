// Tasks whose outputs are logits of the tokens of texts: metrics, predictions and per-sample errors of language models
// and of encoder-decoder models.
#pragma once

#include <memory>

#include "trainer/tasks/predictions.h"
#include "trainer/tasks/sample_error.h"
#include "trainer/tasks/task.h"

namespace amp {

// Returns the metrics accuracy of the tokens and perplexity.
std::unique_ptr<TaskMetrics> token_text_metrics(const LossSpec& loss, const MetricContext& context);
// Returns predictions of the mean loss of each text's tokens, its perplexity, and the number of tokens. ahead: distance
// in positions from an output to the token that it predicts.
std::unique_ptr<Predictions> text_losses(const PredictionContext& context, int64_t ahead);
// Returns errors that are the mean loss of a text's tokens, and describe the prediction where the loss is largest.
// Every text has an error.
std::unique_ptr<PerSampleError> token_loss_error(const LossSpec& loss, const MetricContext& context);

// Returns the vocabulary's size of outputs (rows, tokens, vocabulary). Throws E_TASK for other shapes.
int64_t vocabulary_of(const HostTensor& out, const Batch& batch);

}  // namespace amp
