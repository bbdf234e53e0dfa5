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

// random: consumes random numbers. communicates: exchanges data with other ranks. Nodes with either effect are not
// folded, merged or recomputed.
enum class Effect : uint8_t { pure, random, communicates };

// Computes the outputs of a node from other operators.
using Decomposition = std::vector<ValueId> (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpDef {
  std::string name;
  void (*infer)(InferCtx&) = nullptr;
  // Emits the gradient of the node. If it is null and not_differentiable is set, no gradient passes (integer
  // arithmetic, comparisons). If it is null otherwise, the rule is missing; import reports that with the affected
  // parameters.
  void (*gradient)(GradBuilder&) = nullptr;
  bool not_differentiable = false;
  // Decomposes a node whose gradient cannot be differentiated (a fused *Grad, a recurrent layer), for second
  // derivatives (graph/decompositions.h). Returns an empty list if this node cannot be decomposed. The id of an output
  // that only the operator's own gradient reads (a saved mean) may be left invalid.
  Decomposition decomposition = nullptr;
  // Returns a value that equals the node's only output if the node is a no-op; else an invalid id.
  ValueId (*simplify)(Builder&, const std::vector<ValueId>&, const Attrs&) = nullptr;
  size_t min_inputs = 0;  // fewer are a model error
  Effect effect = Effect::pure;
  bool view = false;           // the output is input 0's bytes with other dims
  bool may_overwrite = false;  // the output may reuse the memory of an input of equal dims and type
  // True if the operator moves elements without arithmetic. Under a precision plan its output has the storage type of
  // input 0.
  bool moves = false;
  // True if the output is a constant that is too large to store: a dequantized weight. Builder does not fold the node.
  // A Program on a device with the trait reads_deferred does not run it if all readers compute the part that they need.
  bool deferred = false;
  int reads_deferred = -1;  // index of the input that the CPU kernel may get in this form (KernelArgs::deferred)
  int64_t (*workspace)(const Graph&, const Node&) = nullptr;  // scratch bytes that the CPU kernel needs
};

const OpDef& core_op(std::string_view name);  // internal error if unknown
const OpDef* find_core_op(std::string_view name);
std::vector<const OpDef*> all_core_ops();  // sorted by name

// An ONNX operator. lower() emits the core nodes for opset versions from `since` up to the next entry's `since`,
// exclusive.
struct OnnxOp {
  std::string name;
  void (*lower)(Lowering&) = nullptr;
  int64_t since = 1;
  std::string domain;  // "" is ai.onnx
};

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, int64_t version);
std::vector<const OnnxOp*> all_onnx_ops();

// Some operator files (ops/*.cc) are compiled a second time, with AMP_CUDA_UNIT, for their CUDA kernels. The first
// compilation already registers the operators, so here registration does nothing.
#ifdef AMP_CUDA_UNIT
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
