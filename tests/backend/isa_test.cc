// ONNX_AMP_MAX_ISA limits the instruction set of the kernels; ctest runs this binary with several limits.
#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "base/simd.h"

using namespace amp;

TEST_CASE("the cap on the instruction set holds", "[isa]") {
  const std::vector<float> a(4, 2.0f), b(4, 3.0f);
  std::vector<float> c(4);
  cpu::parallel_gemm<float>(false, false, 2, 2, 2, 1.0f, a.data(), 2, b.data(), 2, 0.0f, c.data(), 2);
  CHECK(c[0] == 12);
  const char* cap = std::getenv("ONNX_AMP_MAX_ISA");
  if (!cap) SKIP("ONNX_AMP_MAX_ISA is not set");
  CHECK(cpu_isa() <= isa_from_name(cap));
}
