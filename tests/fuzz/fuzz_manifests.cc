// Fuzzes the reader of a checkpoint's manifest. The input is placed before the checksum, and the checksum is made
// valid so that it does not stop the fuzzer.
#include "base/checksum.h"
#include "fuzz/fuzz.h"
#include "trainer/loop/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  std::string text(fuzz::text(data, size));
  text += ",\n \"manifest_crc32c\": \"";
  text += crc32c(text.data(), static_cast<int64_t>(text.size())) + "\"\n}\n";
  return fuzz::accepts_or_refuses([&] { parse_manifest(text); });
}
