// The manifest of a checkpoint as text. Its last member is the CRC-32C of all the text before that checksum, and the
// text around it is fixed, so that no changed or missing byte passes.
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

std::string render_manifest(const Manifest& m);  // a state that is no JSON object is a bug of ours

// Exit::checkpoint: E_CKPT_MANIFEST, E_CKPT_VERSION.
Manifest parse_manifest(std::string_view text);

}  // namespace amp
