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

// The argument of OpDef::infer: the node's inputs and attributes. The rule calls out() once per output.
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

// Adds nodes of other operators that compute the same outputs as a node.
using Decomposition = std::vector<ValueId> (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpDef {
  std::string name;
  void (*infer)(InferCtx&) = nullptr;
  // Emits the gradient of the node. A null pointer with not_differentiable means that no gradient passes (integer
  // arithmetic, comparisons). A null pointer without it means that the rule is missing; import reports the
  // parameters affected.
  void (*gradient)(GradBuilder&) = nullptr;
  bool not_differentiable = false;
  // Decomposes a node whose gradient cannot be differentiated (a fused *Grad, a recurrent layer), for second
  // derivatives (graph/decompositions.h). Returns an empty list if this node cannot be decomposed. May leave the id of
  // an output invalid if only the operator's own gradient reads that output (a saved mean).
  Decomposition decomposition = nullptr;
  // Returns a value that equals the node's only output if the node is a no-op; else an invalid id.
  ValueId (*simplify)(Builder&, const std::vector<ValueId>&, const Attrs&) = nullptr;
  size_t min_inputs = 0;  // a node with fewer inputs is a model error
  Effect effect = Effect::pure;
  bool view = false;           // the output is input 0's bytes with other dims
  bool may_overwrite = false;  // the output may reuse the memory of an input of equal dims and type
  // True if the operator moves elements without arithmetic. Under a precision plan its output has the storage type of
  // input 0.
  bool moves = false;
  // True if the output is a constant that is too large to store (a dequantized weight). Builder does not fold the node.
  // A Program skips it if the device has the trait reads_deferred and each reader computes the part that it needs.
  bool deferred = false;
  int reads_deferred = -1;  // index of the input whose node need not have run (KernelArgs::deferred); -1: none
  int64_t (*workspace)(const Graph&, const Node&) = nullptr;  // scratch bytes that the CPU kernel needs
};

const OpDef& core_op(std::string_view name);  // an unknown name is an internal error
const OpDef* find_core_op(std::string_view name);
std::vector<const OpDef*> all_core_ops();  // returns the operators sorted by name

// An ONNX operator. lower() emits the core nodes for opset versions from `since` up to the next entry's `since`,
// exclusive.
struct OnnxOp {
  std::string name;
  void (*lower)(Lowering&) = nullptr;
  int64_t since = 1;
  std::string domain;  // "" means ai.onnx
};

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, int64_t version);
std::vector<const OnnxOp*> all_onnx_ops();

// Some operator files (ops/*.cc) are compiled a second time, with AMP_CUDA_UNIT, for their CUDA kernels. Their
// operators are registered by the first compilation, so in the second one registration does nothing.
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

// Shape inference rules that many operators share.
void infer_same(InferCtx&);       // output 0 has the type and dims of input 0
void infer_broadcast(InferCtx&);  // output 0 has the NumPy broadcast of all dims and input 0's type
void infer_compare(InferCtx&);    // output 0 has the NumPy broadcast of all dims and type bool

}  // namespace amp
