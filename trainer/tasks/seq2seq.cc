// Encoder-decoder models. The labels are the tokens of the target text, at the positions that predict them.
#include "trainer/tasks/task_rule.h"
#include "trainer/tasks/token_texts.h"

namespace amp {

namespace {

std::unique_ptr<Predictions> target_predictions(const LossSpec&, const PredictionContext& context) {
  return text_losses(context, 0);
}

const TaskRegistration seq2seq_row{{
    .name = "seq2seq",
    .synonyms = {"translation", "summarization"},
    .text = TextForm::source_and_target,
    .loss = "cross_entropy",
    .losses_of = {Task::classification},
    .metrics = {{"accuracy"}, {"perplexity", true}},
    .make_metrics = token_text_metrics,
    .make_predictions = target_predictions,
    .make_error = token_loss_error,
}};

}  // namespace

}  // namespace amp
