// Job: what the library does with a model. Most settings are read by some jobs only.
#pragma once

#include <cstdint>

namespace amp {

// write: writes a model file in another form; build: creates a model file; convert: writes a Hugging Face checkpoint as
// a model file, or a model file as a checkpoint.
enum class Job { train, evaluate, predict, gradients, check, plan, write, tokenize, build, convert, generate };

using JobSet = uint32_t;
template <class... J>
constexpr JobSet jobs(J... j) {
  return ((1u << static_cast<unsigned>(j)) | ...);
}
constexpr bool has(JobSet set, Job job) { return (set & jobs(job)) != 0; }

}  // namespace amp
