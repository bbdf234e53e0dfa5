#include "run/model/require_trained.h"

#include <map>

#include "base/text.h"

namespace amp {

namespace {

// Returns, for each operator, the number of its nodes with integer weights.
std::map<std::string, int> quantized(const SourceGraph& g) {
  std::map<std::string, int> out;
  for (const SourceNode& n : g.nodes) {
    for (const int v : n.inputs) {
      if (v < 0) continue;
      const SourceValue& x = g.values[static_cast<size_t>(v)];
      if (x.kind != SourceKind::constant || !x.data || is_float(x.data.dtype()) || x.data.numel() < 64) continue;
      const bool weight = n.op == "DequantizeLinear" || n.op.rfind("QLinear", 0) == 0 || n.op == "MatMulNBits" ||
                          n.op == "MatMulBnb4" || n.op == "MatMulInteger" || n.op == "ConvInteger";
      if (weight) {
        ++out[n.op];
        break;
      }
    }
  }
  return out;
}

}  // namespace

void require_trained(const Session& session) {
  if (session.layout().trained_size() > 0) return;
  const SourceGraph& g = session.source();
  int frozen = 0, unreached = 0;
  for (const int v : session.table().source_value) ++(g.values[static_cast<size_t>(v)].trainable ? unreached : frozen);
  std::vector<std::string> why;
  if (frozen) why.push_back(cat(frozen, frozen == 1 ? " is frozen" : " are frozen"));
  if (unreached) why.push_back(cat("the gradient of the loss reaches none of the ", unreached, " trainable ones"));
  const std::map<std::string, int> integers = quantized(g);
  for (const auto& [op, n] : integers)
    why.push_back(cat(n, " ", op, n == 1 ? " has" : " have", " integer weights, which have no gradient"));
  if (why.empty()) why.push_back("the file has none");
  std::string hint = "`check` lists every parameter and why it trains or does not; `trainable` GLOB thaws one";
  if (unreached && !frozen) hint = "`output` or `loss` must name what depends on the weights; `check` lists them";
  if (!integers.empty()) {
    hint = integers.count("DequantizeLinear")
               ? "`train_quantized` true trains floating masters of the DequantizeLinear weights, quantized in every "
                 "forward pass, and writes integers back; `lora` r=8 trains adapters beside them"
               : "`lora` r=8 trains adapters beside weights of MatMulNBits and MatMulBnb4; else train the "
                 "floating-point model and quantize it afterwards. Of this file only what is floating-point can train: "
                 "`trainable` GLOB, or a new part by `head` or `num_labels`";
  }
  fail(Exit::usage, "E_NOTHING_TRAINS", cat("no parameter would train: ", join(why, "; ")), hint);
}

}  // namespace amp
