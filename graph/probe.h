// probe(): what would become of every node of a model if it were trained now: bound for concrete input shapes,
// differentiated from its floating outputs, without running anything and without stopping at a problem.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

struct Probe {
  std::vector<Dims> dims;         // by source value; meaningful where known
  std::vector<bool> known;        // by source value: it could be bound
  std::map<int, Error> forward;   // source node -> why it cannot be bound
  std::map<int, Error> backward;  // source node -> why no gradient passes though one is needed
  std::vector<bool> gradient;     // by source node: it lies between a trainable parameter and an output
  std::vector<bool> folded;       // by source node: nothing is left of it once shapes are known
  std::vector<bool> reached;      // by parameter slot: a gradient arrives
};

// o.outputs and o.input_dims as for bind(); trainable: by parameter slot.
Probe probe(const SourceGraph&, const ParamTable&, const BindOptions& o, const std::vector<bool>& trainable,
            const Evaluator&);

// Shapes to probe with: dimensions that the file leaves open become `batch` (the first), `length` (the second) or 1.
std::map<std::string, Dims> probe_dims(const SourceGraph&, const std::vector<int>& outputs, int64_t batch,
                                       int64_t length);

}  // namespace amp
