// The task and the losses that the settings request, before the model and the data are read.
#pragma once

#include "trainer/losses/losses.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct ModelSpec;
struct ObjectiveSpec;

// Parses `loss`; empty if it is not given. Called before the model is read, so that a misspelled loss fails early.
Losses requested_losses(const ObjectiveSpec& objective);
Task requested_task(const ObjectiveSpec& objective);  // `task`; none: auto
// True if the text columns are sides of one encoder: an embedding loss is requested, or a task that has one.
bool wants_sides(const ObjectiveSpec& objective);
// Returns the task of text columns that are sides: regression if a loss takes labels, else retrieval.
Task sides_task(const ObjectiveSpec& objective);
// True if neither `output` nor a loss names the value to read.
bool lacks_output(const ModelSpec& model, const ObjectiveSpec& objective);

}  // namespace amp
