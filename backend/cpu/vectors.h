// Explicit vectors as wide as the registers of the running CPU. at_level() (base/simd.h) runs loops over them.
#pragma once

#include <cstdint>

#include "base/simd.h"

namespace amp::cpu {

template <int Lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(Lanes * 4), aligned(4)));  // unaligned: for data in memory
  typedef float local __attribute__((vector_size(Lanes * 4)));  // aligned: for arguments of generic functions
};

}  // namespace amp::cpu
