// Uses the gradient arena as scratch memory of a Program's run until gradients are written into it. Activations that
// are no longer needed by then are placed there, which makes the activation arena smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/memory_plan.h"

namespace amp {

// A range of the gradient arena. Its previous contents are dead and may be overwritten.
struct ScratchSpan {
  char* begin = nullptr;
  int64_t bytes = 0;
  // The index of the node that writes the gradient (graph/graph.h). Only buffers whose last use is earlier may be
  // placed here.
  int32_t until = 0;
};

// Sets BufferLife::place of buffers that fit into the spans. Spans may be in any order and must not overlap. Repeatedly
// takes the node at which most bytes are live and moves as many of its buffers as fit, those with the latest last use
// first.
void place_in_gradients(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans);

}  // namespace amp
