// NVRTC, NVIDIA's compiler for kernels at run time, is loaded at first use. It needs neither GPU nor driver. This
// header also declares functions for the files that cache machine code.
#pragma once

#include <string>

#include "backend/cuda/generated.h"

namespace amp::cuda {

std::string nvrtc_missing();  // returns why NVRTC is missing; empty if it is present
// Returns machine code for an architecture ("sm_90"). Returns an empty string if compiling fails; `why` then receives
// the reason.
std::string compile_cubin(const GeneratedSource& source, const std::string& architecture, std::string& why);
std::string nvrtc_version();  // returns the version, such as "13.0"; empty without NVRTC

// Returns the machine code in a file, which has a checksum before the code. Returns an empty string if the file is
// broken or missing.
std::string read_cubin(const std::string& path);
// Writes the file, under a temporary name first. Errors are ignored, because it is only a cache.
void write_cubin(const std::string& path, const std::string& code);

}  // namespace amp::cuda
