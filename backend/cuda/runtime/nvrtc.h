// NVRTC, NVIDIA's compiler for kernels at run time: a library that is looked for when it is first needed. Needs neither
// GPU nor driver. And files of what it made.
#pragma once

#include <string>

#include "backend/cuda/generated.h"

namespace amp::cuda {

std::string nvrtc_missing();  // why there is none; empty: there is
// Machine code for an architecture ("sm_90"). Empty: it failed, and why says with what.
std::string compile_cubin(const GeneratedSource& source, const std::string& architecture, std::string& why);
std::string nvrtc_version();  // "13.0"; empty where there is none

// A file of machine code: a checksum, then the code. What is broken or not there reads as empty.
std::string read_cubin(const std::string& path);
// under another name first; errors are ignored: it is a cache
void write_cubin(const std::string& path, const std::string& code);

}  // namespace amp::cuda
