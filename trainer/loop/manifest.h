// Reads and writes the manifest of a checkpoint. Its last member is the CRC-32C of all text before it. The text around
// the checksum is fixed, so that any changed or missing byte is detected.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

struct Manifest {
  static constexpr int64_t kVersion = 1;
  struct File {
    std::string name;  // within the checkpoint's folder: letters, digits, '.', '-', '_'
    int64_t size = 0;
    std::string crc32c;
  };
  int64_t step = 0;
  std::vector<File> files;
  std::map<std::string, std::string> hashes;
  std::string state = "{}";  // a JSON object
};

std::string render_manifest(const Manifest& m);  // requires m.state to be a JSON object

// Returns the manifest in `text`. Throws E_CKPT_MANIFEST (Exit::checkpoint) if it is damaged, and E_CKPT_VERSION
// (Exit::checkpoint) if a newer program wrote it.
Manifest parse_manifest(std::string_view text);

}  // namespace amp
