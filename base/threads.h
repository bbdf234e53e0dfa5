// Determines how many threads can be started. If a limit of processes or memory makes the start of a thread fail,
// OpenMP's runtime ends the process. So the number is determined before OpenMP is used.
#pragma once

namespace amp {

// Starts up to `wanted` threads that exist at the same time, ends them, and returns how many could be started.
int startable_threads(int wanted);

}  // namespace amp
