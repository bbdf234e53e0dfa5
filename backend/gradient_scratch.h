// The gradient arena is scratch memory of a training step until the gradients are written into it: activations that
// die before lie there, and the arena of activations is smaller by them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/memory_plan.h"

namespace amp {

// Of the gradient arena, whose content from before the step nobody reads.
struct ScratchSpan {
  char* begin = nullptr;
  int64_t bytes = 0;
  int32_t until = 0;  // the step that writes the gradient; buffers that live before it only may lie here
};

// Gives buffers a place (BufferLife::place) in spans, which may lie in any order and must not overlap: of those that
// live at the busiest step as many as fit, the last to die first, then the same of what is then the busiest step.
void place_in_gradients(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans);

}  // namespace amp
