// Times work on a stream as it runs inside a recorded step: replays a CUDA graph of many runs, so that the host's
// launch time does not count.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace amp::cuda {

bool is_capturing(cudaStream_t stream);

// Returns milliseconds per run, the least of a few measurements. Waits for the stream. Work that cannot be recorded is
// launched repeatedly.
double milliseconds(cudaStream_t stream, const std::function<void()>& work);

}  // namespace amp::cuda
