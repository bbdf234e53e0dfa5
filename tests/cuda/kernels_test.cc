// Every CUDA kernel against the CPU's, in the emulator. Each node of the operator table's cases runs separately on the
// same inputs, forward and backward. Running the threads in reverse order must give the same bits.
#include <catch2/catch_all.hpp>
#include <iostream>

#include "backend/parallel.h"
#include "tests/cuda/against_cpu.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("every core operator has a CUDA kernel", "[cuda]") {
  std::string missing;
  for (const OpDef* op : all_core_ops()) {
    if (!op->view && !find_kernel(DeviceKind::cuda, op->name)) missing += op->name + ' ';
  }
  INFO("without: " << missing);
  CHECK(missing.empty());
}

TEST_CASE("CUDA kernels agree with the CPU's", "[cuda]") {
  const WithThreads one(1);
  static size_t nodes = 0;
  for (const auto& [op, spec] : op_specs()) {
    DYNAMIC_SECTION(op) {
      for (size_t k = 0; k < spec.cases.size(); ++k) {
        for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
          nodes += agree_with_cpu(op, spec.cases[k], type, k);
        }
      }
    }
  }
  static const struct Report {
    ~Report() { std::cout << "CUDA kernels in the emulator: " << nodes << " nodes\n"; }
  } report;
}
