// Common code of the fuzz targets. A target is a function LLVMFuzzerTestOneInput in one file, for libFuzzer;
// run_inputs.cc calls it without libFuzzer. Any input must be accepted or refused with an Error that blames the input.
// A crash, a hang, another exception or an internal error is a bug of this program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace amp::fuzz {

inline std::string_view text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// Returns the bytes in the form in which read_file() gives them to a reader.
inline FileBytes as_file_bytes(std::string_view bytes) {
  FileBytes out{std::shared_ptr<uint8_t>(new uint8_t[bytes.size()], std::default_delete<uint8_t[]>()),
                static_cast<int64_t>(bytes.size())};
  if (!bytes.empty()) std::memcpy(out.bytes.get(), bytes.data(), bytes.size());
  return out;
}

// Reports a wrong result, and ends the process as a crash does.
inline void must(bool ok, std::string_view what) {
  if (ok) return;
  std::cerr << what << '\n';
  std::abort();
}

template <class Read>
int accepts_or_refuses(Read&& read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.exit() == Exit::internal) {
      std::cerr << "internal error: " << e.id() << ": " << e.fact() << '\n';
      std::abort();
    }
  }
  return 0;
}

}  // namespace amp::fuzz
