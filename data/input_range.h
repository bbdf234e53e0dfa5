// What a model's floating inputs were fed with: floats or whole numbers, from where to where. Pixels of 0 to 255 for a
// model that was trained on 0 to 1 compute without an error and mean nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct InputRange {
  bool whole = false;  // an integer type in the file
  double low = 0, high = 0;
};
using InputRanges = std::map<std::string, InputRange>;  // by input

InputRange range_of(const HostTensor& tensor);  // of its finite values; 0 to 0 without any

// Inputs in both, `given` being those of `file`. E_DATA_RANGE (exit 5) where one holds floats, the other whole numbers,
// and one reaches more than 8 times as far as the other (0..1 and 0..255). Returns warnings where the types are alike
// and the reach differs by far: more than 10 times larger, or 50 times smaller.
std::vector<std::string> compare_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file);

}  // namespace amp
