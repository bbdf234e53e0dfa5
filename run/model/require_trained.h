// A run that would train nothing is refused, with what would train.
#pragma once

#include "trainer/compile/session.h"

namespace amp {

// After Session::prepare(). Exit::usage E_NOTHING_TRAINS: no parameter is both trainable and reached by the gradient.
void require_trained(const Session& session);

}  // namespace amp
