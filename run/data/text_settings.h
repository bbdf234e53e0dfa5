// Facts about texts that follow from the settings, without reading data: the tokenizer, its options, the kind of task.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;
struct TextSpec;

// Returns `tokenizer`, else `vocab`, else the tokenizer in the model's folder, or an empty path if there is none.
std::string tokenizer_path(const RunSpec& spec);
std::string tokenizer_folder(const RunSpec& spec);  // the folder with tokenizer_path(), or that path if it is a folder
std::vector<std::string> config_folders(const RunSpec& spec);  // folders of the model and of its tokenizer
TokenizerOptions tokenizer_options(const TextSpec& text);

AnswerOptions answer_options(const TextSpec& text);  // for extractive question answering

bool has_named_classes(Task task);
bool is_masked_language_model(const RunSpec& spec);  // true if `loss` names only losses of masked tokens
// True for a masked language model, or if `loss` names only losses of causal language models.
bool is_language_model(const RunSpec& spec);
bool has_answer_pairs(Task task);  // true if a sample of the task's texts is a preferred and a rejected answer
// True if a sample of the task's texts is an answer with a mark, desirable or not, and an answer to another prompt.
bool has_marked_answers(Task task);
// Returns the number of rows of a batch that a sample has: one for each text column with `sides`, two for answers that
// are compared with each other (pairs, and marked answers with answers to other prompts).
int64_t rows_per_sample(const RunSpec& spec, Task task, bool sides);
// Returns the task of a language model's texts: that of `loss` if it names only losses of preferences, else language.
Task language_task(const RunSpec& spec);

}  // namespace amp
