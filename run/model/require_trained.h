// Refuses a run that would train no parameter.
#pragma once

#include "trainer/compile/session.h"

namespace amp {

// Call it after Session::prepare(). Exit::usage E_NOTHING_TRAINS: no parameter is trainable and reached by the
// gradient.
void require_trained(const Session& session);

}  // namespace amp
