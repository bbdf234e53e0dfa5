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

// Returns the values that a resumed run must share (Resume), by setting: a file is represented by its size and
// checksum, the model by its SHA-256, other values by their text.
std::map<std::string, std::string> resume_record(const RunSpec& spec);

}  // namespace amp
