#include "run/settings/asked_objective.h"

#include <algorithm>

#include "run/spec/model.h"
#include "run/spec/objective.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_text.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

Losses requested_losses(const ObjectiveSpec& objective) {
  std::vector<std::string> texts = *objective.loss;
  std::erase(texts, "auto");
  Losses l;
  l.parts = parse_losses(texts);
  return l;
}

Task requested_task(const ObjectiveSpec& objective) { return task_from_name(*objective.task); }

Task sides_task(const ObjectiveSpec& objective) {
  return requested_losses(objective).labels().empty() ? Task::retrieval : Task::regression;
}

bool lacks_output(const ModelSpec& model, const ObjectiveSpec& objective) {
  const Losses losses = requested_losses(objective);
  const bool named = !losses.parts.empty() && std::all_of(losses.parts.begin(), losses.parts.end(),
                                                          [](const LossSpec& s) { return !s.outputs.empty(); });
  return model.output.empty() && !named;
}

bool wants_sides(const ObjectiveSpec& objective) {
  const Losses losses = requested_losses(objective);
  if (losses.parts.empty()) return task_rule(requested_task(objective)).embeddings;
  return std::any_of(losses.parts.begin(), losses.parts.end(),
                     [](const LossSpec& s) { return loss_rule(s.kind).embeddings; });
}

}  // namespace amp
