// Value ranges of a model's floating-point inputs. Comparing them detects data on another scale than the training data.
// Pixels from 0 to 255 for a model that was trained on 0 to 1 would cause no error otherwise.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct InputRange {
  bool whole = false;  // the file stores the tensor as integers
  double low = 0, high = 0;
};
using InputRanges = std::map<std::string, InputRange>;  // key: name of the input

InputRange range_of(const HostTensor& tensor);  // considers finite values only; 0 to 0 if there are none

// Compares the ranges of the inputs that are in both maps; `given` is from `file`. Throws E_DATA_RANGE (exit 5) if one
// of the two holds floats and the other integers, and their largest magnitudes differ by a factor above 8 (0..1 and
// 0..255). Otherwise returns a warning for each input whose largest magnitude is more than 10 times larger or 50 times
// smaller.
std::vector<std::string> compare_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file);

}  // namespace amp
