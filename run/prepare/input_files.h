// Lists the files that a run reads, and records the settings and files that a resumed run must share.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace amp {

struct RunSpec;

// Returns pairs of a setting and a file: {"train", "train.csv"}.
std::vector<std::pair<std::string, std::string>> input_files(const RunSpec& spec);

// Returns what a resumed run must share (Resume), by setting: values as text, files by size and checksum, the model by
// its SHA-256.
std::map<std::string, std::string> resume_record(const RunSpec& spec);

}  // namespace amp
