// samples.json: what a run's last evaluation was worst at, with texts and small pictures, for its report. It is
// bounded, whatever the data hold: a few samples, cut texts, pictures of a few hundred pixels.
#pragma once

#include <string>

#include "run/prepare.h"
#include "trainer/worst_samples.h"

namespace amp {

inline constexpr const char* kSamplesFile = "samples.json";

// The data's rows are read again, which is little beside an evaluation; the file is not written where there are none.
void write_samples(const PreparedRun& run, const WorstSamples& worst, int64_t step, const std::string& folder);

}  // namespace amp
