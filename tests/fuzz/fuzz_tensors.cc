// .safetensors, .npy and .npz files, distinguished by their first bytes.
#include "base/npz.h"
#include "base/safetensors.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  const std::string_view bytes = fuzz::text(data, size);
  const char* suffix = bytes.starts_with("PK") ? ".npz" : bytes.starts_with("\x93NUMPY") ? ".npy" : ".safetensors";
  return fuzz::accepts_or_refuses([&] { read_tensor_file(fuzz::as_file(bytes, suffix)); });
}
