// The op-list: a JSON file of the user that says which operators may run in 16 bits (format: docs/precision.md):
//
//    {"version": 1, "extends": "O1", "dtype": "fp16", "propagation": "paint",
//     "allow": {"add": ["Swish"], "remove": ["LSTM"]}, "deny": ["Softmax"],
//     "rules": [{"op": "MatMul", "node": "/encoder/layer.11/*", "precision": "fp32", "why": "outliers"}],
//     "loss_scale": {"mode": "dynamic", "init": 65536}}
//
// "extends" is a preset, a file (relative to the file that names it) or "none"; the default is O1. A class given as an
// array replaces the inherited class; {"add", "remove"} edits it. An operator has one class: naming it moves it out of
// its inherited class, and naming it in two classes of one file is an error. A removed operator becomes infer.
// Operators are ONNX names, "Resize.linear" for a node with that mode, "domain::Name" for one domain, "*" for all
// operators that are not listed (without "*" they are infer, and reported as unlisted). Rules are inherited in order;
// the last match is used.
//
// A file that plan_io.h wrote is also an op-list: "graph", "nodes" and "warnings" record the plan.
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
  inputs,  // PyTorch's rule: allow runs in 16 bits, deny in fp32, all others in their widest floating-point input type
};

enum class Precision : uint8_t { fp32, fp16, bf16, low /* the plan's 16-bit type */, follow /* the widest input */ };
std::string_view name_of(Precision p);

// A rule for the nodes that match all its fields from `op` to `param`. These are globs for whole names; an empty
// field matches every node.
struct PrecisionRule {
  std::string op;      // operator, or the operator that a group of nodes is equivalent to ("LayerNormalization")
  std::string node;    // name of the node
  std::string scope;   // leading part of the node's name up to a '/': "/encoder/layer.11" covers everything below it
  std::string tensor;  // name or alias of an output of the node
  std::string param;   // a parameter that the node reads, directly or via reshapes and transposes
  Precision precision = Precision::fp32;
  std::string why;
  std::string source;  // where the rule is written, for messages: "rule 3 of my.json"
};

struct OpClassEntry {
  OpClass cls = OpClass::infer;
  std::string source;  // the list with this entry: "O1", "my.json"
};

struct OpList {
  std::string name;  // name of the preset or file
  std::optional<DType> dtype;
  Propagation propagation = Propagation::paint;
  std::map<std::string, OpClassEntry> classes;
  std::vector<PrecisionRule> rules;
  LossScaleConfig loss_scale;
  std::vector<std::string> warnings;            // for example, that a removed operator was not listed
  std::string graph;                            // for a recorded plan, the fingerprint of its graph; otherwise empty
  std::map<std::string, std::string> recorded;  // node name -> compute type in the plan file

  // Returns the entry for an operator. The first of these names that has one is used: "domain::op", "op.mode",
  // "op", "*". Returns null if there is no entry.
  const OpClassEntry* find(const std::string& domain, const std::string& op, const std::string& mode = {}) const;
};

// Parse or load an op-list. They throw usage errors with the file, the line or key path, and the nearest name:
//   E_OP_LIST_JSON       not JSON, or a key twice
//   E_OP_LIST_KEY        unknown key, missing key, value of the wrong kind
//   E_OP_LIST_OPERATOR   unknown operator
//   E_OP_LIST_OVERLAP    an operator in two classes
//   E_OP_LIST_PRECISION  unknown precision, dtype, class or propagation
//   E_OP_LIST_EXTENDS    unknown preset or file, or a cycle
OpList parse_op_list(std::string_view text, const std::string& file_name);
OpList preset(const std::string& name);
OpList load_op_list(const std::string& name_or_path);  // loads the preset of that name if there is one, else the file

}  // namespace amp
