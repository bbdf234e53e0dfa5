// Functions of base/ that each architecture implements, in a folder next to this file (cmake/architectures.cmake
// selects the folder). Every function returns the same bits as the scalar code in base/dtype.cc or base/checksum.cc.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp::isa {

// Convert the first elements with instructions of the running CPU and return how many they converted; the caller
// converts the rest. They convert no elements if the CPU has no instructions faster than compiled loops.
int64_t to_float(const Half* src, float* dst, int64_t n);
int64_t from_float(const float* src, Half* dst, int64_t n);
int64_t from_float(const float* src, BFloat16* dst, int64_t n);

bool has_crc32c();
// Returns the CRC state after appending the `size` bytes at p. Requires has_crc32c().
uint32_t crc32c(uint32_t state, const uint8_t* p, int64_t size);

}  // namespace amp::isa
