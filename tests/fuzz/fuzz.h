// Common code of the fuzz targets (libFuzzer). Any input must be accepted or refused with an Error that blames the
// input. A crash, a hang, another exception or an internal error is a bug of this program.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace amp::fuzz {

inline std::string_view text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// For readers that take a path: creates a temporary file with these bytes and a name that ends in `suffix`.
inline std::string as_file(std::string_view bytes, const std::string& suffix) {
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      std::string(folder ? folder : "/tmp") + "/onnx-amp-fuzz-" + std::to_string(getpid()) + suffix;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
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
