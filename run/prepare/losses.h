// Chooses the losses of a run and the values that they read, from --loss, --output and the model.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct ModelSpec;
struct ObjectiveSpec;

// Returns the losses with their outputs. A loss reads its own "output", else `head` (the output of a head, if there is
// one), else --output, else logits (start_logits and end_logits for spans), else the first floating output.
// Without --loss the loss is `automatic` (the task's). If that is empty, it is the model's own loss if it has one and
// no head, else cross_entropy. If the output ends in a Sigmoid, bce_logits replaces these. --teacher adds distill.
// Exit::usage (E_LOSS_IO) if the model has no such output.
Losses choose_losses(const ModelSpec& model, const ObjectiveSpec& objective, const SourceGraph& graph,
                     const std::string& head = {}, const std::string& automatic = {});

// Makes losses on logits read the value before a trailing Softmax, LogSoftmax or Sigmoid. Returns notes for the user.
std::vector<std::string> bypass_output_activations(const SourceGraph& graph, Losses& losses);

void log_losses(const Losses& losses, const std::vector<std::string>& notes, const Log& log);

}  // namespace amp
