// Value ranges of a model's floating-point inputs. Detects data on another scale than the training data: pixels of 0 to
// 255 for a model trained on 0 to 1 cause no error otherwise.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct InputRange {
  bool whole = false;  // the file stores integers
  double low = 0, high = 0;
};
using InputRanges = std::map<std::string, InputRange>;  // by name of the input

InputRange range_of(const HostTensor& tensor);  // finite values only; 0 to 0 if there are none

// Compares the inputs that both have; `given` is from `file`. Throws E_DATA_RANGE (exit 5) if one holds floats, the
// other integers, and their largest magnitudes differ by a factor above 8 (0..1 and 0..255). Returns warnings if the
// types agree and the largest magnitude is more than 10 times larger or 50 times smaller.
std::vector<std::string> compare_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file);

}  // namespace amp
