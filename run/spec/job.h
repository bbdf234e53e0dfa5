// What the library does with a model: most settings are read for some jobs only.
#pragma once

#include <cstdint>

namespace amp {

// write: a model file, again; build: a model that no file holds yet.
enum class Job { train, evaluate, predict, gradients, check, plan, write, tokenize, build, generate };

using JobSet = uint32_t;
template <class... J>
constexpr JobSet jobs(J... j) {
  return ((1u << static_cast<unsigned>(j)) | ...);
}
constexpr bool has(JobSet set, Job job) { return (set & jobs(job)) != 0; }

}  // namespace amp
