// Metrics as part of a checkpoint's JSON state. All members are stored, so that the run.json of a resumed run equals
// that of an uninterrupted run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/loop/checked_state.h"
#include "trainer/loop/evaluate.h"

namespace amp {

nlohmann::json to_state(const Metrics& metrics);
// Accepts states of versions that kept only loss, samples and values. Throws E_CKPT_STATE (Exit::checkpoint).
Metrics metrics_of_state(const CheckedState& state);

}  // namespace amp
