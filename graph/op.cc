#include "graph/op.h"

#include <map>

#include "base/error.h"

namespace amp {

namespace {
std::map<std::string, OpDef, std::less<>>& core_table() {
  static std::map<std::string, OpDef, std::less<>> t;
  return t;
}
// The table of ONNX operators: "domain::name" -> first opset version -> entry.
std::map<std::string, std::map<int64_t, OnnxOp>, std::less<>>& onnx_table() {
  static std::map<std::string, std::map<int64_t, OnnxOp>, std::less<>> t;
  return t;
}
}  // namespace

RegisterOp::RegisterOp(OpDef def) {
  const std::string name = def.name;
  check(core_table().emplace(name, std::move(def)).second, cat("core operator registered twice: ", name));
}

RegisterOnnx::RegisterOnnx(OnnxOp op) {
  const std::string key = op.domain + "::" + op.name;
  const int64_t since = op.since;
  check(onnx_table()[key].emplace(since, std::move(op)).second, cat("ONNX operator registered twice: ", key));
}

const OpDef* find_core_op(std::string_view name) {
  const auto it = core_table().find(name);
  return it == core_table().end() ? nullptr : &it->second;
}

const OpDef& core_op(std::string_view name) {
  const OpDef* op = find_core_op(name);
  if (!op) bug(cat("no core operator '", name, "'"));
  return *op;
}

std::vector<const OpDef*> all_core_ops() {
  std::vector<const OpDef*> out;
  for (const auto& [name, def] : core_table()) out.push_back(&def);
  return out;
}

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, int64_t version) {
  const std::string_view d = domain == "ai.onnx" ? std::string_view() : domain;
  const auto it = onnx_table().find(cat(d, "::", name));
  if (it == onnx_table().end()) return nullptr;
  const OnnxOp* best = nullptr;
  for (const auto& [since, op] : it->second) {
    if (since <= version) best = &op;
  }
  return best;
}

std::vector<const OnnxOp*> all_onnx_ops() {
  std::vector<const OnnxOp*> out;
  for (const auto& [key, versions] : onnx_table()) {
    for (const auto& [since, op] : versions) out.push_back(&op);
  }
  return out;
}

void infer_same(InferCtx& c) { c.out(c.in(0).dtype, c.in(0).dims); }

static Dims broadcast_all(const InferCtx& c) {
  Dims d = c.in(0).dims;
  for (size_t i = 1; i < c.n_in(); ++i) d = broadcast(d, c.in(i).dims);
  return d;
}
void infer_broadcast(InferCtx& c) { c.out(c.in(0).dtype, broadcast_all(c)); }
void infer_compare(InferCtx& c) { c.out(DType::boolean, broadcast_all(c)); }

}  // namespace amp
