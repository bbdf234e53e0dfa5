// The op-list: which operators may run in 16 bits, as edited by the user. JSON; docs/precision.md describes the format:
//
//    {"version": 1, "extends": "O1", "dtype": "fp16", "propagation": "paint",
//     "allow": {"add": ["Swish"], "remove": ["LSTM"]}, "deny": ["Softmax"],
//     "rules": [{"op": "MatMul", "node": "/encoder/layer.11/*", "precision": "fp32", "why": "outliers"}],
//     "loss_scale": {"mode": "dynamic", "init": 65536}}
//
// "extends" is a preset, a file (relative to the file that refers to it) or "none"; the default is O1. A class given as
// an array replaces the inherited one; {"add", "remove"} edits it. An operator is in one class: naming it moves it out
// of its inherited class, and naming it in two classes of one file is an error. A removed operator becomes infer.
// Operators are ONNX names, "Resize.linear" for a node with that mode, "domain::Name" for one domain, "*" for all
// operators that are not listed (otherwise they are infer, and reported as unlisted). Rules are inherited in order; the
// last one that matches a node wins.
//
// A written plan (plan_io.h) is an op-list too: "graph", "nodes" and "warnings" are read as a record.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "precision/loss_scaler.h"

namespace amp {

enum class OpClass : uint8_t { allow, infer, deny, clear };
std::string_view name_of(OpClass c);

enum class Propagation : uint8_t {
  paint,   // TensorFlow's four-color algorithm (paint.h)
  inputs,  // PyTorch's: allow runs low, deny fp32, all others in their widest floating-point input
};

enum class Precision : uint8_t { fp32, fp16, bf16, low /* the plan's 16-bit type */, follow /* the widest input */ };
std::string_view name_of(Precision p);

// A rule for the nodes that match all its fields up to `param`. These are globs for whole names; an empty one matches
// any.
struct PrecisionRule {
  std::string op;      // operator, or the kind of a decomposed operator ("LayerNormalization")
  std::string node;    // node name
  std::string scope;   // leading part of the node's name up to a '/': "/encoder/layer.11" covers everything below it
  std::string tensor;  // an output of the node, by name or alias
  std::string param;   // a parameter that the node reads, directly or through reshapes and transposes
  Precision precision = Precision::fp32;
  std::string why;
  std::string source;  // "rule 3 of my.json", for messages
};

struct OpClassEntry {
  OpClass cls = OpClass::infer;
  std::string source;  // "O1", "my.json": the list with this entry
};

struct OpList {
  std::string name;  // preset or file name
  std::optional<DType> dtype;
  Propagation propagation = Propagation::paint;
  std::map<std::string, OpClassEntry> classes;
  std::vector<PrecisionRule> rules;
  LossScaleConfig loss_scale;
  std::vector<std::string> warnings;            // e.g. the removal of an operator that was not listed
  std::string graph;                            // fingerprint of the graph of a recorded plan; otherwise empty
  std::map<std::string, std::string> recorded;  // node name -> compute type in the plan file

  // Returns the entry for an operator: that of "domain::op", else "op.mode", else "op", else "*". Null if there is
  // none.
  const OpClassEntry* find(const std::string& domain, const std::string& op, const std::string& mode = {}) const;
};

// Parse or load an op-list. Throw usage errors with the file, the line or key path, and the nearest name:
//   E_OP_LIST_JSON       not JSON, or a key twice
//   E_OP_LIST_KEY        unknown key, missing key, value of the wrong kind
//   E_OP_LIST_OPERATOR   unknown operator
//   E_OP_LIST_OVERLAP    an operator in two classes
//   E_OP_LIST_PRECISION  unknown precision, dtype, class or propagation
//   E_OP_LIST_EXTENDS    unknown preset or file, or a cycle
OpList parse_op_list(std::string_view text, const std::string& file_name);
OpList preset(const std::string& name);
OpList load_op_list(const std::string& name_or_path);  // a preset's name, else a file

}  // namespace amp
