// probe() examines how every node of a model would be trained. It binds the model for concrete input shapes and
// differentiates its floating-point outputs, without executing it and without stopping at errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

struct Probe {
  std::vector<Dims> dims;         // per source value; valid if known
  std::vector<bool> known;        // per source value: it could be bound
  std::map<int, Error> forward;   // source node -> reason why it cannot be bound
  std::map<int, Error> backward;  // source node -> reason why a needed gradient does not pass
  std::vector<bool> gradient;     // per source node: on a path from a trainable parameter to an output
  std::vector<bool> folded;       // per source node: folded completely once shapes are known
  std::vector<bool> reached;      // per parameter slot: a gradient arrives
};

// Examines the nodes that o.outputs need, for the input shapes o.input_dims. trainable: one element per parameter slot.
Probe probe(const SourceGraph&, const ParamTable&, const BindOptions& o, const std::vector<bool>& trainable,
            const Evaluator&);

// Returns input shapes for probe(). A dynamic dimension becomes `batch` if it is the first; else the size of its symbol
// (graph/symbols.h), if that is known; else `length` if it is the second, else 1.
std::map<std::string, Dims> probe_dims(const SourceGraph&, const std::vector<int>& outputs, int64_t batch,
                                       int64_t length);

}  // namespace amp
