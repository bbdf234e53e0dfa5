// OpDef: all that is known of a core operator, and the two tables: core operators (what a Graph is made of) and
// ONNX operators (how each is lowered to core ones). The tables are filled by static registration in ops/ and are
// constant once main() runs: the only global state of the program.
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

// Handed to OpDef::infer: the node's inputs and attributes; the rule calls out() once per output.
struct InferCtx {
  const Graph& graph;
  const std::vector<ValueId>& inputs;
  const Attrs& attrs;
  std::vector<std::pair<DType, Dims>> outputs;

  const Value& in(size_t i) const { return graph.value(inputs.at(i)); }
  size_t n_in() const { return inputs.size(); }
  void out(DType t, Dims d) { outputs.emplace_back(t, std::move(d)); }
};

// random: draws bits; communicates: with other ranks. Both are never folded, merged or recomputed.
enum class Effect : uint8_t { pure, random, communicates };

// Outputs of a node out of other operators.
using Definition = std::vector<ValueId> (*)(Builder&, const std::vector<ValueId>& in, const Attrs&);

struct OpDef {
  std::string name;
  void (*infer)(InferCtx&) = nullptr;
  // Emits the gradient of the node; null: no gradient passes (integer arithmetic, comparisons) if
  // not_differentiable is set, else a missing rule, reported at import with the parameters that it blocks.
  void (*gradient)(GradBuilder&) = nullptr;
  bool not_differentiable = false;
  // The node spelled out, where its gradient cannot be differentiated: a fused *Grad, a recurrent layer. Second
  // derivatives go through it (graph/definitions.h). An empty result: this node has none; an output that only the
  // operator's own gradient reads may be left out.
  Definition definition = nullptr;
  // Returns a value equal to the node's only output when the node is a no-op, else an invalid id.
  ValueId (*simplify)(Builder&, const std::vector<ValueId>&, const Attrs&) = nullptr;
  size_t min_inputs = 0;  // fewer are a model error
  Effect effect = Effect::pure;
  bool view = false;           // the output is input 0's bytes under other dims
  bool may_overwrite = false;  // the output may take the place of an input of the same dims and type
  // Moves elements without arithmetic: under a precision plan it follows the storage type of input 0.
  bool moves = false;
  int64_t (*workspace)(const Graph&, const Node&) = nullptr;  // scratch bytes that the CPU kernel needs
};

const OpDef& core_op(std::string_view name);  // internal error when unknown
const OpDef* find_core_op(std::string_view name);
std::vector<const OpDef*> all_core_ops();  // by name

// An ONNX operator: lower() emits core nodes for a node of versions since.. (until the next entry's since).
struct OnnxOp {
  std::string name;
  void (*lower)(Lowering&) = nullptr;
  int64_t since = 1;
  std::string domain;  // "" is ai.onnx
};

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, int64_t version);
std::vector<const OnnxOp*> all_onnx_ops();

#ifdef AMP_CUDA_UNIT  // an operator's file compiled once more, for its CUDA kernels: the tables are filled already
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

// Common inference rules.
void infer_same(InferCtx&);       // output 0 = input 0's type and dims
void infer_broadcast(InferCtx&);  // NumPy broadcast of all inputs, type of input 0
void infer_compare(InferCtx&);    // NumPy broadcast, bool

}  // namespace amp
