// bind() converts a SourceGraph to a Graph of core operators for concrete input shapes. Shape arithmetic, ranges and
// constant masks are folded. Only nodes that the requested outputs need are kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/source.h"

namespace amp {

// The parameters of a model in the order of their slots. Only masters (parameters that are not tied to another
// parameter) have slots; a tied copy uses its master's slot.
struct ParamTable {
  std::vector<int> source_value;  // slot -> index in SourceGraph::values
  std::vector<int> slot_of;       // index in SourceGraph::values -> slot; -1 if it is not a parameter
  explicit ParamTable(const SourceGraph&);
  size_t size() const { return source_value.size(); }
};

struct BindOptions {
  DType float_type = DType::f32;           // f32, or f64 for numerical checks
  std::map<std::string, Dims> input_dims;  // for every graph input that is needed
  std::vector<int> outputs;                // requested values, as indices in SourceGraph::values
  bool train = false;                      // whether dropout nodes are active
  bool batchnorm_train = false;
  bool sync_batchnorm = false;  // whether batch statistics are computed over all ranks
  // If true, BatchNormalization nodes that the file stores in training form (training_mode = 1, or several outputs
  // before opset 14) use batch statistics.
  bool batchnorm_as_written = false;
};

struct Bound {
  std::vector<ValueId> values;  // index in SourceGraph::values -> value of the Graph; invalid if not needed
};

// Binds the model and appends its nodes to the builder's graph. Errors name the source node.
Bound bind(const SourceGraph&, const ParamTable&, const BindOptions&, Builder&);

// Does the same as bind(), but continues after errors: `faults` receives the error of each node that cannot be bound,
// and nodes that need its outputs are skipped.
Bound bind_tolerant(const SourceGraph&, const ParamTable&, const BindOptions&, Builder&, std::map<int, Error>& faults);

// A node with nested graphs (branches, loop bodies) also reads the outer values that the nested graphs capture. These
// values follow the node's declared inputs. The attribute of this name lists their names in the nested graphs.
inline constexpr const char* kCaptures = "captures";
// Binds a nested graph and returns its outputs; ids of outputs that are not wanted are invalid. inputs: the nested
// graph's declared inputs. captured: the outer values by name. A nested graph has no parameters: floating-point
// tensors in it are constants.
std::vector<ValueId> bind_body(const SourceGraph&, const std::vector<ValueId>& inputs,
                               const std::map<std::string, ValueId>& captured, const std::vector<bool>& wanted,
                               const BindOptions&, Builder&);

// Returns, per source value, the shape for the given input shapes; empty for values that the requested outputs do not
// need.
std::vector<Dims> probe_shapes(const SourceGraph&, const ParamTable&, const BindOptions&, const Evaluator&);

// Returns the graph inputs that the requested outputs depend on, in the file's order.
std::vector<int> needed_inputs(const SourceGraph&, const std::vector<int>& outputs);
std::vector<bool> live_nodes(const SourceGraph&, const std::vector<int>& outputs);

// Returns the indices of the needed nodes whose operator has no lowering.
std::vector<int> unknown_operators(const SourceGraph&, const std::vector<int>& outputs);

}  // namespace amp
