// The parameter table that `check` prints: every floating constant with what was decided about it and why.
#pragma once

#include <string>

#include "graph/source.h"

namespace amp {

struct DescribeOptions {
  bool constants = false;  // list floating constants that are not parameters too
};

// "encoder.layer.0.attention.self.query.weight  [384,384]  147,456  yes  weight: input 1 of MatMul '...'"; a total
// last.
std::string describe_parameters(const SourceGraph& g, const DescribeOptions& options = {});

// One JSON object a line: name, alias, dtype, dims, count, parameter, trainable, tied_to, tied_transposed, reason.
std::string describe_parameters_json(const SourceGraph& g, const DescribeOptions& options = {});

struct ParameterCount {
  int64_t tensors = 0, elements = 0;  // trainable; a tied weight counts once
  int64_t frozen_tensors = 0, frozen_elements = 0;
};
ParameterCount count_parameters(const SourceGraph& g);

}  // namespace amp
