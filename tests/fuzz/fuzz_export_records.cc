// Fuzzes export.safetensors of a run: the settings, facts and tensors with which a stopped run is exported. The input
// is the JSON record, or a whole file if it does not begin with '{'.
#include "base/safetensors.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "run/folder/run_files.h"
#include "run/prepare/export_record.h"

namespace {

using namespace amp;

std::string file_of(std::string_view record) {
  std::string out;
  write_safetensors([&](const void* p, int64_t n) { out.append(static_cast<const char*>(p), static_cast<size_t>(n)); },
                    {{"x", HostTensor::of<float>({1, 2}, {1, 2})}},
                    {{"format", "onnx-amp-finetune export 1"}, {"record", std::string(record)}});
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  fuzz::MemoryFolder& folder = fuzz::memory_folder();
  return fuzz::accepts_or_refuses([&] {
    folder.put(kExportRecord, input.starts_with('{') ? file_of(input) : std::string(input));
    read_export_record(folder.path());
  });
}
