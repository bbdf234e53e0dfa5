// The reference model of losses such as dpo: the model before training.
#pragma once

#include <vector>

#include "base/log.h"
#include "importer/read/import.h"
#include "run/model/surgery.h"
#include "trainer/losses/losses.h"

namespace amp {

struct RunSpec;

// As make_trainable(), and adds the reference model to the graph (importer/surgery/reference.h) if a loss compares with
// the model before training and no `teacher` is given. `reference` decides whether it has the adapter that training
// starts from. Sets LossSpec::reference of these losses, and logs which model the reference is. Throws E_TEACHER
// (Exit::usage) if the model cannot be copied, or if `reference` asks for a model without adapters and there are none.
Trainable make_trainable_with_reference(const RunSpec& spec, Imported& model, const std::vector<int>& outputs,
                                        Losses& losses, const Log& log);

}  // namespace amp
