// Imports an ONNX file: protobuf, schema checks, functions, subgraphs, and the passes that find weights. The target
// fuzz_external_data covers external data; here only the model's file exists.
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "importer/read/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  return fuzz::accepts_or_refuses(
      [&] { import_model(fuzz::memory_folder().put("model.onnx", fuzz::text(data, size))); });
}
