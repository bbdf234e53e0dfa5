// Decompositions of recurrent layers (backend/cpu/recurrent/recurrent.h): the layers unrolled in time, as operators
// that can be differentiated twice. Outputs that only the layers' own gradients read are omitted.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

std::vector<ValueId> decompose_lstm(Builder& b, const std::vector<ValueId>& in, const Attrs& attrs);
std::vector<ValueId> decompose_gru(Builder& b, const std::vector<ValueId>& in, const Attrs& attrs);
std::vector<ValueId> decompose_rnn(Builder& b, const std::vector<ValueId>& in, const Attrs& attrs);

}  // namespace amp
