// Text files as people name them: one, several between commas, patterns such as part-*.jsonl; plain or gzip.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace amp {

// The files that a name stands for: itself when there is a file of that whole name; else its parts between commas, in
// their order, a part with * ? [ ] as what it matches, sorted. E_FILE_MISSING (usage) for a pattern that matches none.
std::vector<std::string> files_named(const std::string& names);

// A whole file (base/mapped_file.h), unpacked when it begins as gzip does (RFC 1952; several members are one file).
// E_DATA_GZIP (exit 5) for one that is damaged or cut short, or that would grow beyond 256 MiB and 100 times its size:
// text does not.
FileBytes read_text_file(const std::string& path);
FileBytes unpack(const FileBytes& packed, const std::string& name);
// Its first bytes, as many as there are, without unpacking the rest.
std::string read_head(const std::string& path, int64_t size);

std::string without_gz(const std::string& path);  // train.csv.gz: train.csv

}  // namespace amp
