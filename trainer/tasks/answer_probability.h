// The log-probability of an answer of a language model, on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/losses/losses.h"

namespace amp {

// Returns the sum (mean: the mean) of the log-probabilities of a row's labels; 0 without labels. logits: fp32 (rows,
// tokens, vocabulary), label: int64 (rows, tokens).
double answer_probability(const LossSpec& loss, const HostTensor& logits, const HostTensor& label, int64_t row,
                          bool mean);

std::vector<HostTensor> in_fp32(const std::vector<HostTensor>& outputs);

}  // namespace amp
