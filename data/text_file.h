// Reads text files, plain or gzip, by names as users write them: one, several between commas, patterns such as
// part-*.jsonl.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace amp {

// Returns the files that `names` denotes. If a file of that whole name exists, it is the only one. Otherwise the parts
// between commas are returned in their order. A part with * ? [ ] is a pattern whose matches are sorted. Throws
// E_FILE_MISSING (Exit::usage) for a pattern without matches.
std::vector<std::string> files_named(const std::string& names);

// Reads a whole file (base/mapped_file.h) and unpacks it if it begins with gzip's magic number (RFC 1952; several
// members are concatenated). Throws E_DATA_GZIP (exit 5) if it is damaged or truncated, or if it would grow beyond both
// 256 MiB and 100 times its size.
FileBytes read_text_file(const std::string& path);
FileBytes unpack(const FileBytes& packed, const std::string& name);
// Returns the first `size` bytes, or fewer if the file is shorter, without unpacking the rest.
std::string read_head(const std::string& path, int64_t size);

std::string without_gz(const std::string& path);  // returns "train.csv" for "train.csv.gz"

}  // namespace amp
