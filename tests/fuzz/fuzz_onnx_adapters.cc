// Fuzz target of .onnx_adapter files. The input is such a file. An adapter that was read, written and read again must
// be equal, and the shapes of its A and B must fit together.
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "importer/adapter/adapter_file.h"
#include "importer/adapter/onnx_adapter.h"

namespace {

using namespace amp;

bool same(const OnnxAdapter& a, const OnnxAdapter& b) {
  if (a.parameters.size() != b.parameters.size() || a.model_version != b.model_version) return false;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const NamedTensor &x = a.parameters[i], &y = b.parameters[i];
    const bool alike = x.name == y.name && x.tensor.dtype() == y.tensor.dtype() && x.tensor.dims() == y.tensor.dims();
    const auto bytes = static_cast<size_t>(x.tensor.bytes());
    if (!alike || (bytes > 0 && std::memcmp(x.tensor.data(), y.tensor.data(), bytes) != 0)) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::text(data, size);
  fuzz::MemoryFolder& folder = fuzz::memory_folder();
  fuzz::accepts_or_refuses([&] {
    const OnnxAdapter read = parse_onnx_adapter(fuzz::as_file_bytes(bytes));
    const std::string path = folder.path() + "/written.onnx_adapter";
    write_onnx_adapter(path, read);
    fuzz::must(same(read, read_onnx_adapter(path)), "an adapter differs after it was written");
  });
  return fuzz::accepts_or_refuses([&] {
    for (const LoadedModule& m : read_adapter(folder.put("read.onnx_adapter", bytes)).modules)
      fuzz::must(m.rank() > 0 && m.a.dims()[1] == m.b.dims()[0], "a pair without a common rank was accepted");
  });
}
