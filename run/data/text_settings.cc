// Settings of texts. The tokenizer is searched in the folders that a model file may belong to (model_folders.h).
#include "run/data/text_settings.h"

#include <algorithm>
#include <filesystem>

#include "run/data/model_folders.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

std::string tokenizer_path(const RunSpec& spec) {
  if (!spec.data.text.tokenizer.empty()) return spec.data.text.tokenizer;
  if (!spec.data.text.vocab.empty()) return spec.data.text.vocab;
  if (spec.model.model.empty()) return {};
  std::string found;
  for (const std::string& folder : folders_of_model(spec.model.model)) {
    if (found.empty()) found = find_tokenizer(folder);
  }
  return found;
}

std::string tokenizer_folder(const RunSpec& spec) {
  const std::filesystem::path files = tokenizer_path(spec);
  std::error_code error;
  return (std::filesystem::is_directory(files, error) ? files : files.parent_path()).string();
}

std::vector<std::string> config_folders(const RunSpec& spec) {
  std::vector<std::string> folders = folders_of_model(spec.model.model);
  folders.push_back(tokenizer_folder(spec));
  return folders;
}

TokenizerOptions tokenizer_options(const TextSpec& text) { return {.lower_case = *text.lower_case}; }

AnswerOptions answer_options(const TextSpec& text) {
  return {*text.max_answer_length, text.n_best_size, *text.version_2_with_negative, *text.null_score_diff_threshold};
}

bool has_named_classes(Task task) { return task_rule(task).named_classes; }

static bool all_losses(const RunSpec& spec, bool LossRule::*is) {
  const std::vector<LossSpec> losses = requested_losses(spec.objective).parts;
  return !losses.empty() &&
         std::all_of(losses.begin(), losses.end(), [&](const LossSpec& s) { return loss_rule(s.kind).*is; });
}

bool is_masked_language_model(const RunSpec& spec) { return all_losses(spec, &LossRule::hidden_tokens); }
bool is_language_model(const RunSpec& spec) {
  return all_losses(spec, &LossRule::next_token) || is_masked_language_model(spec);
}

// Returns true if the task belongs to language models and its loss reads the rows of a batch in pairs.
static bool has_paired_rows(Task task) {
  if (task == Task::none || task_rule(task).text != TextForm::own_tokens) return false;
  const LossRule& rule = loss_rule(task_rule(task).loss);
  return rule.next_token && rule.rows_in_turn == 2;
}

bool has_marked_answers(Task task) { return has_paired_rows(task) && *loss_rule(task_rule(task).loss).second_label; }
bool has_answer_pairs(Task task) { return has_paired_rows(task) && !has_marked_answers(task); }

int64_t rows_per_sample(const RunSpec& spec, Task task, bool sides) {
  if (sides) return std::ssize(*spec.data.text.text_columns);
  return has_paired_rows(task) ? 2 : 1;
}

Task language_task(const RunSpec& spec) {
  const std::vector<LossSpec> losses = requested_losses(spec.objective).parts;
  const bool paired = std::all_of(losses.begin(), losses.end(),
                                  [](const LossSpec& s) { return has_paired_rows(loss_rule(s.kind).task); });
  return paired && !losses.empty() ? loss_rule(losses[0].kind).task : Task::language;
}

}  // namespace amp
