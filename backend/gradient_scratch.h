// Uses the gradient arena as scratch memory of a training step until gradients are written into it. Activations
// that die earlier are placed there, which makes the activation arena smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/memory_plan.h"

namespace amp {

// A range of the gradient arena. Its previous contents are dead and may be overwritten.
struct ScratchSpan {
  char* begin = nullptr;
  int64_t bytes = 0;
  int32_t until = 0;  // the step that writes the gradient; only buffers that die earlier may be placed here
};

// Assigns BufferLife::place in the spans, which may be in any order and must not overlap. Moves as many buffers as
// fit out of the busiest step, the last to die first, and continues with the step that is then the busiest.
void place_in_gradients(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans);

}  // namespace amp
