// Whole command lines of another trainer, taken as they are: --compat paddle is PaddlePaddle's BERT/run_classifier.py
// (docs/coming_from.md). One of them may train, evaluate and test: it becomes several commands of ours.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp::cli {

// A flag of the other trainer's.
struct ForeignFlag {
  std::string_view name;
  bool truth = false;                // takes true or false
  std::string_view ours = {};        // our setting of the same meaning; empty: the translation reads it
  std::string_view initial = {};     // the default there; empty: ours stands
  std::string_view no_meaning = {};  // why it says nothing here
};
std::span<const ForeignFlag> paddle_flags();

// A command of ours.
struct CompatStage {
  std::string of;                                            // the flag that asks for it: "do_train"
  std::vector<std::string> words;                            // verb, model, flags
  std::vector<std::pair<std::string, std::string>> initial;  // the other trainer's defaults, by our names
};

struct CompatCommand {
  std::vector<CompatStage> stages;
  std::vector<std::string> notes;  // what was given and means nothing here
};

// Nothing where the words have no --compat. Usage errors: E_USAGE, E_FILE_MISSING.
std::optional<CompatCommand> compat_command(std::span<const std::string> words);

// The files of a task that the other trainer knows, and their columns.
struct TaskFiles {
  std::string path;  // as --train and --val take it; empty: not asked for
  std::vector<std::string> text_columns;
  std::string label_column, group_by;  // group_by: may be empty
};
enum class TaskPart { train, dev, test };
// Nothing for a part whose labels are not public. task: lower case.
std::optional<TaskFiles> paddle_files(const std::string& task, const std::string& data_dir, TaskPart part);
void check_paddle_task(const std::string& task);  // E_USAGE for one that is not known
int paddle_classes(const std::string& task);      // how many labels it has

}  // namespace amp::cli
