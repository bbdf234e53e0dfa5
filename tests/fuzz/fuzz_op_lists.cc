// Fuzzes the reader of op lists and of written precision plans.
#include "fuzz/fuzz.h"
#include "precision/op_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  return fuzz::accepts_or_refuses([&] { parse_op_list(fuzz::text(data, size), "fuzz.json"); });
}
