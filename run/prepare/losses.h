// Which losses a run has, and on which values: from --loss, --output and the model.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"
#include "run/spec/spec.h"
#include "trainer/losses/losses.h"

namespace amp {

// --loss parsed; empty without it. Before any model is read, so that a misspelt loss costs no time.
Losses asked_losses(const RunSpec& spec);

// Every loss with its outputs: its own "output", else `head` (a head's output, if there is one), else --output, else
// logits, start_/end_logits for spans, else the first floating output. Without --loss: `automatic` (the task's); empty:
// the model's own loss when it has one and there is no head, else cross_entropy. bce_logits in the place of these when
// the output is a Sigmoid's. --teacher adds distill. Exit::usage (E_LOSS_IO) when the model has no such output.
Losses choose_losses(const RunSpec& spec, const SourceGraph& graph, const std::string& head = {},
                     const std::string& automatic = {});

// A loss on logits reads what lies before a trailing Softmax, LogSoftmax or Sigmoid. Returns what to tell the user.
std::vector<std::string> bypass_output_activations(const SourceGraph& graph, Losses& losses);

void tell_losses(const Losses& losses, const std::vector<std::string>& notes, const Log& log);

std::vector<int> values_of(const SourceGraph& graph, const Losses& losses);  // the outputs that exist, for pruning

}  // namespace amp
