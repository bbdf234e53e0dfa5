// Names of tasks: what a model is for, and so what its labels and metrics are (trainer/tasks/task.h).
#pragma once

#include <cstdint>
#include <string>

namespace amp {

enum class Task : uint8_t {
  none,            // the loss alone
  classification,  // accuracy, macro_f1
  token,           // accuracy, macro_f1 over the tokens whose label is not ignored; entity_* where tags are of entities
  language,        // accuracy, perplexity
  seq2seq,         // the same of the target texts of an encoder-decoder model
  regression,      // mse, mae, pearson, spearman
  multilabel,      // micro_f1, macro_f1, exact_match; positive from a probability of 0.5 on
  span,            // exact_match, span_f1: of the texts where there are any, else of token positions
  segmentation,    // miou, dice, accuracy over pixels
  retrieval,       // accuracy (the own candidate is the nearest of all), mrr: of embeddings, without labels
};

Task task_from_name(const std::string& name);  // "auto" and "none" are Task::none
std::string name_of(Task task);
bool writes_text(Task task);  // the outputs are logits of tokens, and labels come from texts

}  // namespace amp
