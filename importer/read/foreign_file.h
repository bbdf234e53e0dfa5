// Recognizes files that are not ONNX models by their content, and gives advice on each kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

struct ForeignFile {
  std::string kind;       // such as "a safetensors file"
  std::string advice;     // the next step for the user; mentions the file as `path`
  bool is_model = false;  // true for a model of another framework, false for data or text
};

// Recognizes a file by its content; nullopt if it is of no known kind. path: the name used in the advice. head: the
// file's first bytes (64 KiB suffice). entries: names of the archive's entries, if the file is a zip archive.
std::optional<ForeignFile> recognize(const std::string& path, std::string_view head,
                                     const std::vector<std::string>& entries = {});

// Like recognize(), but for an open file or a path. Also returns nullopt if the file cannot be read.
std::optional<ForeignFile> recognize_file(const std::string& path, int fd, int64_t size);
std::optional<ForeignFile> recognize_file(const std::string& path);

// Returns the names of a zip archive's entries, from its central directory; empty if it cannot be read.
std::vector<std::string> zip_entries(int fd, int64_t size);

}  // namespace amp
