// What a file is that is no ONNX model, by its content, and what to do with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

struct ForeignFile {
  std::string kind;       // "a safetensors file"
  std::string advice;     // what to do with it; names it by `path`
  bool is_model = false;  // of another framework, rather than data or a text
};

// path: how the file is called in the advice. head: its first bytes, 64 KiB are enough. entries: names in the file when
// it is a zip archive.
std::optional<ForeignFile> recognize(const std::string& path, std::string_view head,
                                     const std::vector<std::string>& entries = {});

// The same of an open file or of a path; nullopt when it cannot be read, too.
std::optional<ForeignFile> recognize_file(const std::string& path, int fd, int64_t size);
std::optional<ForeignFile> recognize_file(const std::string& path);

// Names of a zip archive's entries, from its central directory; none where that cannot be read.
std::vector<std::string> zip_entries(int fd, int64_t size);

}  // namespace amp
