// Task: the name of a model's purpose, such as "classification". Everything else about a task is in its TaskRule
// (trainer/tasks/task_rule.h).
#pragma once

#include <string>
#include <string_view>

namespace amp {

class Task {
 public:
  constexpr Task() = default;                                      // none: the loss only, without metrics
  constexpr explicit Task(std::string_view name) : name_(name) {}  // the text must outlive the task
  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(Task a, Task b) { return a.name_ == b.name_; }

  // Tasks that the program infers from data, losses or outputs. A task that only the setting `task` selects is not
  // listed.
  static const Task none, classification, token, language, seq2seq, regression, multilabel, span, segmentation,
      retrieval;

 private:
  std::string_view name_ = "none";
};

inline constexpr Task Task::none{};
inline constexpr Task Task::classification{"classification"};
inline constexpr Task Task::token{"token"};
inline constexpr Task Task::language{"language"};
inline constexpr Task Task::seq2seq{"seq2seq"};
inline constexpr Task Task::regression{"regression"};
inline constexpr Task Task::multilabel{"multilabel"};
inline constexpr Task Task::span{"span"};
inline constexpr Task Task::segmentation{"segmentation"};
inline constexpr Task Task::retrieval{"retrieval"};

Task task_from_name(const std::string& name);  // Task::none for "auto", "none" and unknown names
inline std::string name_of(Task task) { return std::string(task.name()); }

}  // namespace amp
