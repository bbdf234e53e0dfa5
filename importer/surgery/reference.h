// ReferenceModel: a frozen copy of a model inside the graph that trains it. Losses of preferences compare the trained
// model with the model before training. Both run in the same Programs and share every weight that does not change, and
// the nodes that read only such weights.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/source.h"

namespace amp {

class ReferenceModel {
 public:
  // Records the nodes that outputs depend on, and the weights of the graph, as they are now. outputs: values of the
  // graph. The tensors stay in memory until this object is destroyed.
  ReferenceModel(const SourceGraph& g, std::vector<int> outputs);

  struct Added {
    std::vector<int> outputs;  // the reference's values of the recorded outputs, in their order
    int64_t nodes = 0;         // nodes that are computed a second time
    int64_t elements = 0;      // elements of weights that are stored a second time
  };
  // Adds the recorded model to the graph, which may have got adapters and dropout since. Weights that train, or that
  // surgery changed, get a frozen copy (reason kReason) with the recorded values. Dropout is left out. The nodes are of
  // Place::training, so no export has them. Throws E_TEACHER (Exit::usage) for models with BatchNormalization, or with
  // nested graphs that read values of the main graph.
  Added add(SourceGraph& g) const;

  static constexpr const char* kReason = "reference";  // SourceValue::reason of the copies

 private:
  std::vector<SourceNode> nodes_;
  std::map<int, HostTensor> weights_;
  std::vector<int> outputs_;
};

}  // namespace amp
