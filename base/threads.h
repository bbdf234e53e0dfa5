// Determines how many threads can be started. Limits of processes or memory can make the start of a thread fail, and
// OpenMP's runtime then ends the process. So the number is tried before OpenMP is used.
#pragma once

namespace amp {

// Starts up to `wanted` threads that exist at the same time, ends them, and returns how many could be started.
int startable_threads(int wanted);

}  // namespace amp
