#include "graph/limits.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

int64_t activation_limit(const SourceGraph& g, const std::map<std::string, Dims>& input_dims) {
  if (limits().activation_bytes > 0) return limits().activation_bytes;
  double bytes = 0;
  for (const SourceValue& v : g.values) bytes += static_cast<double>(v.data.bytes());
  for (const auto& [name, dims] : input_dims) bytes += 8 * static_cast<double>(numel(dims));
  return static_cast<int64_t>(std::clamp(1e4 * bytes, 768.0 * (1 << 20), 1e18));
}

void require_constant(const std::string& what, double bytes) {
  if (bytes <= static_cast<double>(limits().constant_bytes)) return;  // false for NaN, so that NaN is refused too
  fail(Exit::unsupported, "E_FOLD_BUDGET",
       cat(what, " makes a constant of ", bytes, " bytes; the limit is ", limits().constant_bytes),
       "`max_constant_bytes` raises the limit");
}

void refuse_nodes(const char* when) {
  fail(Exit::unsupported, "E_NODES", cat("the model has more than ", limits().graph_nodes, " nodes once ", when),
       "is the model what you think it is? `max_graph_nodes` raises the limit");
}

void refuse_bytes(const std::string& what, int64_t limit) {
  fail(Exit::unsupported, "E_TENSOR_BYTES", cat(what, "; the limit is ", limit),
       "use a smaller `batch_size`, or raise `max_activation_bytes` if the model needs so much");
}

}  // namespace amp
