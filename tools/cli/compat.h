// Translates command lines of another trainer. --compat paddle reads those of PaddlePaddle's BERT/run_classifier.py
// (docs/coming_from.md). One command line of that script may train, evaluate and test, so it becomes several
// commands of this program.
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
  bool truth = false;  // whether its values are true and false
  // The setting with the same meaning; empty if no single setting has it: then code in compat.cc translates the flag.
  std::string_view ours = {};
  std::string_view initial = {};     // the other trainer's default; empty: the same as this program's
  std::string_view no_meaning = {};  // why the flag has no effect in this program
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
  std::vector<std::string> notes;  // sentences about given flags that have no effect
};

// Translates a command line. Returns nullopt if the words have no --compat. Throws E_USAGE and E_FILE_MISSING
// (Exit::usage).
std::optional<CompatCommand> compat_command(std::span<const std::string> words);

// The files of a task and their columns.
struct TaskFiles {
  std::string path;  // in the form of --train and --val; empty: not requested
  std::vector<std::string> text_columns;
  std::string label_column, group_by;  // group_by: may be empty
};
enum class TaskPart { train, dev, test };
// Returns the files of a part of a task; nullopt if the labels of that part are not public. task: in lower case.
std::optional<TaskFiles> paddle_files(const std::string& task, const std::string& data_dir, TaskPart part);
void check_paddle_task(const std::string& task);  // throws E_USAGE for an unknown task
int paddle_classes(const std::string& task);      // returns the number of labels

}  // namespace amp::cli
