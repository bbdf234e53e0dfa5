// Chooses the losses of a run and the values that they read, from `loss`, `output` and the model.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct ModelSpec;
struct ObjectiveSpec;

// Returns the losses with their outputs. A loss reads the first of these that exists: its own "output"; `head`, the
// output of a head; the setting `output`; logits (start_logits and end_logits for spans); the first floating output.
// Without the setting `loss` the loss is `automatic` (the task's). If that is empty, it is the model's own loss if it
// has one and no head, else cross_entropy, or bce_logits if the output ends in a Sigmoid. `teacher` adds distill.
// references: the caller adds a reference model (run/prepare/reference.h) for losses that need one and have no teacher.
// Throws E_LOSS_IO (Exit::usage) if the model has no such output, E_TEACHER (Exit::usage) for a loss without a teacher.
Losses choose_losses(const ModelSpec& model, const ObjectiveSpec& objective, const SourceGraph& graph,
                     const std::string& head = {}, const std::string& automatic = {}, bool references = false);

// Makes losses on logits read the value before a trailing Softmax, LogSoftmax or Sigmoid. Returns notes for the user.
std::vector<std::string> bypass_output_activations(const SourceGraph& graph, Losses& losses);

void log_losses(const Losses& losses, const std::vector<std::string>& notes, const Log& log);

}  // namespace amp
