// Fuzz targets (libFuzzer): what any input must do to a reader. It is accepted, or refused with an Error that blames
// the input; a crash, a hang, an exception of another kind or an internal error is a fault of ours.
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

// For readers that take a path: a file of this process with these bytes. The name ends in `suffix`.
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
