// probe() examines how each node of a model would be trained. It binds the model for concrete input shapes and
// differentiates the floating-point outputs. It executes no kernels for data and continues after errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

struct Probe {
  std::vector<Dims> dims;         // per source value: its dims; valid only if `known` is true
  std::vector<bool> known;        // per source value: whether it could be bound
  std::map<int, Error> forward;   // source node -> reason why it cannot be bound
  std::map<int, Error> backward;  // source node -> reason why a needed gradient does not pass
  std::vector<bool> gradient;     // per source node: whether it is on a path from a trainable parameter to an output
  std::vector<bool> folded;       // per source node: whether it is folded completely once shapes are known
  std::vector<bool> reached;      // per parameter slot: whether a gradient arrives
};

// Examines the nodes that o.outputs need, for the input shapes o.input_dims. trainable: by parameter slot.
Probe probe(const SourceGraph&, const ParamTable&, const BindOptions& o, const std::vector<bool>& trainable,
            const Evaluator&);

// Returns input shapes for probe(). A dynamic first dimension becomes `batch`. Another dynamic dimension gets the size
// of its symbol (graph/symbols.h) if that is known; otherwise the second dimension becomes `length`, and all others 1.
std::map<std::string, Dims> probe_dims(const SourceGraph&, const std::vector<int>& outputs, int64_t batch,
                                       int64_t length);

}  // namespace amp
