// Refuses a run that would train no parameter.
#pragma once

#include "trainer/compile/session.h"

namespace amp {

// Throws E_NOTHING_TRAINS (Exit::usage) if no parameter is trainable and reached by the gradient. Call it after
// Session::prepare().
void require_trained(const Session& session);

}  // namespace amp
