// Detects structure in a tensor's values that training does not produce: filter banks, transforms, graph matrices,
// hand-written tables. Learned and randomly initialized 32-bit values have no such structure.
#pragma once

#include <optional>
#include <string>

#include "base/host_tensor.h"

namespace amp {

struct FixedPattern {
  const char* text;
  bool certain;             // if false, newly initialized or hand-written parameters may have the pattern too
  bool repetition = false;  // the pattern is that values repeat; a learned table after a lookup repeats them too
  bool typed = false;       // the values are short decimals, or roots, logarithms and reciprocals of whole numbers
};

// Returns the pattern in the values, or nullopt. Values with one or two distinct numbers are not examined, except two
// of opposite sign.
std::optional<FixedPattern> fixed_pattern(const HostTensor& data);

// True if there are at least `fewest` elements, nine tenths of a sample are distinct, and no pattern is found: the
// values come from training or from an initializer.
bool unstructured(const HostTensor& data, int64_t fewest);

// True if each element of a sample has at most six significant decimal digits: typed by hand or printed by a program
// ("%g"). A trained 32-bit element passes with a probability of about 0.1.
bool printed_decimals(const HostTensor& data);

}  // namespace amp
