// OpDef describes a core operator, OnnxOp the lowering of an ONNX operator to core operators. Both tables are filled by
// static registration in ops/ and do not change after main() starts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace amp {

class Builder;
class GradBuilder;
class Lowering;

// Passed to OpDef::infer: the node's inputs and attributes. The rule calls out() once per output.
struct InferCtx {
  const Graph& graph;
  const std::vector<ValueId>& inputs;
  const Attrs& attrs;
  std::vector<std::pair<DType, Dims>> outputs;

  const Value& in(size_t i) const { return graph.value(inputs.at(i)); }
  size_t n_in() const { return inputs.size(); }
  void out(DType t, Dims d) { outputs.emplace_back(t, std::move(d)); }
};

// random: consumes random numbers; communicates: with other ranks. Such nodes are not folded, merged or recomputed.
enum class Effect : uint8_t { pure, random, communicates };

// Computes the outputs of a node from other operators.
using Decomposition = std::vector<ValueId> (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpDef {
  std::string name;
  void (*infer)(InferCtx&) = nullptr;
  // Emits the gradient of the node. Null: no gradient passes (integer arithmetic, comparisons) if not_differentiable is
  // set; else the rule is missing, which is reported at import with the affected parameters.
  void (*gradient)(GradBuilder&) = nullptr;
  bool not_differentiable = false;
  // Decomposition of a node whose gradient cannot be differentiated: a fused *Grad, a recurrent layer. Used for second
  // derivatives (graph/decompositions.h). An empty result: this node has none. An output that only the operator's own
  // gradient reads may be invalid.
  Decomposition decomposition = nullptr;
  // If the node is a no-op: a value equal to its only output; else an invalid id.
  ValueId (*simplify)(Builder&, const std::vector<ValueId>&, const Attrs&) = nullptr;
  size_t min_inputs = 0;  // fewer are a model error
  Effect effect = Effect::pure;
  bool view = false;           // the output is input 0's bytes with other dims
  bool may_overwrite = false;  // the output may reuse the memory of an input of equal dims and type
  // Moves elements without arithmetic: under a precision plan it has the storage type of input 0.
  bool moves = false;
  int64_t (*workspace)(const Graph&, const Node&) = nullptr;  // scratch bytes that the CPU kernel needs
};

const OpDef& core_op(std::string_view name);  // internal error if unknown
const OpDef* find_core_op(std::string_view name);
std::vector<const OpDef*> all_core_ops();  // sorted by name

// An ONNX operator: lower() emits core nodes for a node of version `since` up to the next entry's `since`.
struct OnnxOp {
  std::string name;
  void (*lower)(Lowering&) = nullptr;
  int64_t since = 1;
  std::string domain;  // "" is ai.onnx
};

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, int64_t version);
std::vector<const OnnxOp*> all_onnx_ops();

#ifdef AMP_CUDA_UNIT  // an operator's file compiled again for its CUDA kernels: the tables are already filled
struct NothingToRegister {
  explicit NothingToRegister(const OpDef&) {}
  explicit NothingToRegister(const OnnxOp&) {}
};
using RegisterOp = NothingToRegister;
using RegisterOnnx = NothingToRegister;
#else
struct RegisterOp {
  explicit RegisterOp(OpDef def);
};
struct RegisterOnnx {
  explicit RegisterOnnx(OnnxOp op);
};
#endif

// Common rules of shape inference.
void infer_same(InferCtx&);       // output 0 = input 0's type and dims
void infer_broadcast(InferCtx&);  // NumPy broadcast of all inputs, type of input 0
void infer_compare(InferCtx&);    // NumPy broadcast, bool

}  // namespace amp
