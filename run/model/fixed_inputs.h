// Inputs whose value decides a graph's shapes or branches: the condition of an If, a Loop's trip count, TopK's k, axes,
// the shape of a Reshape, the ends of a Slice. A graph is bound to shapes alone, so such an input must have one value:
// where tensors give it one for all of their rows, that value is bound as a constant.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"

namespace amp {

// Reads `files` (--train and --val, those that are given) only where a node of g cannot be bound without an input's
// value. SourceValue::data of such an input is then set, in the shape of one row, or of the whole tensor where it has
// no rows. An input with several values is left as it is: binding refuses it (E_DYNAMIC) by its node.
// whole: the files are one batch, whose values are known whatever they are.
void bind_fixed_inputs(SourceGraph& g, const std::vector<std::string>& files, bool whole, const Log& log);

// The values that bind_fixed_inputs() bound, by the inputs' names; and the same values for another import of the model.
std::map<std::string, HostTensor> fixed_inputs(const SourceGraph& g);
void set_fixed_inputs(SourceGraph& g, const std::map<std::string, HostTensor>& values);

}  // namespace amp
