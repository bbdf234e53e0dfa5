// Packs a quantized operand of a matrix product (pack.h): dequantizes it while the panels are written.
#pragma once

#include "backend/cpu/gemm/pack.h"

namespace amp::cpu {

// Implements pack_panels() (pack.h) for a source with x.quantized.
void pack_quantized(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                    float* panels);

}  // namespace amp::cpu
