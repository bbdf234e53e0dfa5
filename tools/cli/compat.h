// Translates command lines of another trainer. --compat paddle reads those of PaddlePaddle's BERT/run_classifier.py
// (docs/coming_from.md). One such command line may train, evaluate and test, so it becomes several commands of this
// program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp::cli {

// A flag of the other trainer.
struct ForeignFlag {
  std::string_view name;
  bool truth = false;  // takes true or false
  // the setting with the same meaning; empty if there is none: compat.cc translates the flag by code
  std::string_view ours = {};
  std::string_view initial = {};     // the other trainer's default; empty: this program's
  std::string_view no_meaning = {};  // why the flag has no effect here
};
std::span<const ForeignFlag> paddle_flags();

// A command of this program, made from the other trainer's command line.
struct CompatStage {
  std::string of;                                            // the flag that requests it: "do_train"
  std::vector<std::string> words;                            // verb, model, flags
  std::vector<std::pair<std::string, std::string>> initial;  // (this program's setting, the other trainer's default)
};

struct CompatCommand {
  std::vector<CompatStage> stages;
  std::vector<std::string> notes;  // sentences on given flags that have no effect
};

// Translates a command line. Returns nullopt if the words have no --compat. Throws E_USAGE and E_FILE_MISSING
// (Exit::usage).
std::optional<CompatCommand> compat_command(std::span<const std::string> words);

// The files of a task and their columns.
struct TaskFiles {
  std::string path;  // as for --train and --val; empty: not requested
  std::vector<std::string> text_columns;
  std::string label_column, group_by;  // group_by: may be empty
};
enum class TaskPart { train, dev, test };
// Returns the files of a part of a task; nullopt if the labels of that part are not public. task: in lower case.
std::optional<TaskFiles> paddle_files(const std::string& task, const std::string& data_dir, TaskPart part);
void check_paddle_task(const std::string& task);  // throws E_USAGE for an unknown task
int paddle_classes(const std::string& task);      // number of labels

}  // namespace amp::cli
