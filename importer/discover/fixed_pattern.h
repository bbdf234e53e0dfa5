// Structure in a tensor's values that training does not produce: filter banks, transforms, graph matrices, tables that
// somebody wrote down. Learned and freshly drawn values of 32 bits have none of it.
#pragma once

#include <optional>
#include <string>

#include "base/host_tensor.h"

namespace amp {

struct FixedPattern {
  const char* text;
  bool certain;             // else fresh or hand-written parameters have it too now and then
  bool repetition = false;  // of values: a learned table that was looked up has it too
  bool typed = false;       // short decimals, or roots, logarithms and reciprocals of whole numbers
};

// For tensors with more than two distinct values, or with two of opposite sign.
std::optional<FixedPattern> fixed_pattern(const HostTensor& data);

// At least `fewest` elements, nine tenths of a sample distinct, and no pattern: what training or an initializer leaves.
bool unstructured(const HostTensor& data, int64_t fewest);

// A sample of the elements have at most six significant decimal digits: somebody wrote them, or a program printed
// weights as text ("%g"). A trained element of 32 bits looks so with a probability of about 0.1.
bool printed_decimals(const HostTensor& data);

}  // namespace amp
