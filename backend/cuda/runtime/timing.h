// Times of work on a stream as it takes inside a recorded step: replays of a CUDA graph of many runs, so that what the
// host needs to launch them does not count.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace amp::cuda {

bool is_capturing(cudaStream_t stream);

// Milliseconds a run, the least of a few. Waits. Work that cannot be recorded is launched run after run.
double milliseconds(cudaStream_t stream, const std::function<void()>& work);

}  // namespace amp::cuda
