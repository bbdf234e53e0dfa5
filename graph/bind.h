// bind(): SourceGraph + concrete input shapes -> Graph of core operators. Shape arithmetic, ranges and constant masks
// disappear; only what the wanted outputs need is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/source.h"

namespace amp {

// The parameters of a model, in the order of their slots: masters only (a tied copy uses its master's slot).
struct ParamTable {
  std::vector<int> source_value;  // slot -> index in SourceGraph::values
  std::vector<int> slot_of;       // index in SourceGraph::values -> slot, -1 when it is no parameter
  explicit ParamTable(const SourceGraph&);
  size_t size() const { return source_value.size(); }
};

struct BindOptions {
  DType float_type = DType::f32;           // f32, or f64 for checks
  std::map<std::string, Dims> input_dims;  // every graph input that is needed
  std::vector<int> outputs;                // wanted source values
  bool train = false;                      // dropout nodes act
  bool batchnorm_train = false;
  bool sync_batchnorm = false;  // batch statistics are those of all ranks
  // nodes in training form (training_mode = 1; before opset 14: several outputs) use batch statistics
  bool batchnorm_as_written = false;
};

struct Bound {
  std::vector<ValueId> values;  // source value -> core value; invalid where not needed
};

// Appends to the builder's graph. Errors carry the source node.
Bound bind(const SourceGraph&, const ParamTable&, const BindOptions&, Builder&);

// As bind(), but goes on: a node that cannot be bound gets its error here, what needs its outputs stays invalid.
Bound bind_tolerant(const SourceGraph&, const ParamTable&, const BindOptions&, Builder&, std::map<int, Error>& faults);

// Graphs inside a node (branches, loop bodies). A node that has any carries, behind its own inputs, the outer values
// that they read; the attribute of this name lists what they are called inside.
inline constexpr const char* kCaptures = "captures";
// Binds such a graph: `inputs` are its own, `captured` the outer values by name. Parameters cannot lie inside: floating
// tensors there are constants. Outputs that are not wanted are invalid.
std::vector<ValueId> bind_body(const SourceGraph&, const std::vector<ValueId>& inputs,
                               const std::map<std::string, ValueId>& captured, const std::vector<bool>& wanted,
                               const BindOptions&, Builder&);

// The shape of every value that the wanted outputs need, for given input shapes; empty for the others.
std::vector<Dims> probe_shapes(const SourceGraph&, const ParamTable&, const BindOptions&, const Evaluator&);

// Which graph inputs the wanted outputs depend on, in the file's order.
std::vector<int> needed_inputs(const SourceGraph&, const std::vector<int>& outputs);
std::vector<bool> live_nodes(const SourceGraph&, const std::vector<int>& outputs);

// Every live node whose operator has no lowering: all at once. Empty: all known.
std::vector<int> unknown_operators(const SourceGraph&, const std::vector<int>& outputs);

}  // namespace amp
