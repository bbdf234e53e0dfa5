// Binds inputs whose value decides shapes or branches of a graph: the condition of an If, a Loop's trip count, TopK's
// k, axes, the shape of a Reshape, the ends of a Slice. A compiled graph needs these values as constants. If such an
// input has the same value in all rows of the data, that value is bound as a constant.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "graph/source.h"

namespace amp {

// Sets SourceValue::data of the inputs that must be constant because a node of g cannot be bound otherwise. The value
// has the shape of one row, or of the whole tensor if the tensor has no rows. An input whose value differs between rows
// or files is left unset; binding then fails with E_DYNAMIC.
// files: `train` and `val`, may be empty. Only tensor files are read, and only if such a node exists. whole: the files
// are one batch, so that a value is a whole tensor.
void bind_fixed_inputs(SourceGraph& g, const std::vector<std::string>& files, bool whole, const Log& log);

// fixed_inputs() returns the values that bind_fixed_inputs() bound, by input name. set_fixed_inputs() sets them in
// another import of the same model.
std::map<std::string, HostTensor> fixed_inputs(const SourceGraph& g);
void set_fixed_inputs(SourceGraph& g, const std::map<std::string, HostTensor>& values);

}  // namespace amp
