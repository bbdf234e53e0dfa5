// What a model may ask for before it is refused: a file of a few kilobytes can name tensors of any size; and what data
// may hold in memory. Limits of the process, like those of the system: set once, from flags, before a model is read.
#pragma once

#include <cstdint>

namespace amp {

struct Limits {
  int64_t graph_nodes = 200'000;               // functions inlined, loops unrolled
  int64_t activation_bytes = 0;                // 0: by the model (graph/limits.h)
  int64_t constant_bytes = int64_t{64} << 20;  // one tensor computed from constants
  int64_t in_memory_bytes = 0;                 // data beyond goes to a file (base/spill.h); 0: by the machine
};

const Limits& limits();
void set_limits(const Limits& limits);

}  // namespace amp
