// The files that a run reads, and the record of settings and files that a resumed run must share.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace amp {

struct RunSpec;

// Returns the files by setting: {"train", "train.csv"}.
std::vector<std::pair<std::string, std::string>> input_files(const RunSpec& spec);

// Returns what Resume requires, by setting: values as text, files by size and checksum, the model by its SHA-256.
std::map<std::string, std::string> resume_record(const RunSpec& spec);

}  // namespace amp
