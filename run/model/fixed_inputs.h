// Inputs whose value decides shapes or branches of a graph: the condition of an If, a Loop's trip count, TopK's k,
// axes, the shape of a Reshape, the ends of a Slice. A graph is bound only to shapes, so such an input must be
// constant. If it has the same value in all rows of the data, that value is bound as a constant.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"

namespace amp {

// Sets SourceValue::data of inputs without whose value a node of g cannot be bound. The value has the shape of one row,
// or of the whole tensor if it has no rows. An input with several values is left unset: binding fails with E_DYNAMIC.
// Reads the tensor files among `files` (--train and --val, may be empty), and only if there is such a node.
// whole: the files are one batch; the whole tensor is the value.
void bind_fixed_inputs(SourceGraph& g, const std::vector<std::string>& files, bool whole, const Log& log);

// Returns the values that bind_fixed_inputs() bound, by input name; sets the same values in another import of the
// model.
std::map<std::string, HostTensor> fixed_inputs(const SourceGraph& g);
void set_fixed_inputs(SourceGraph& g, const std::map<std::string, HostTensor>& values);

}  // namespace amp
