// Fuzzes readers of .safetensors, .npy and .npz files, distinguished by their first bytes.
#include "base/npz.h"
#include "base/safetensors.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  const std::string_view bytes = fuzz::text(data, size);
  return fuzz::accepts_or_refuses([&] {
    const FileBytes file = fuzz::as_file_bytes(bytes);
    if (bytes.starts_with("PK")) {
      parse_npz(file, "fuzz.npz", Exit::data);
    } else if (bytes.starts_with("\x93NUMPY")) {
      parse_npy(file, "fuzz.npy", Exit::data);
    } else {
      parse_safetensors(file, "fuzz.safetensors", Exit::data);
    }
  });
}
