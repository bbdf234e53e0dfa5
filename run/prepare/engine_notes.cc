#include "run/prepare/engine_notes.h"

#include <algorithm>

#include "base/cat.h"
#include "precision/units.h"

namespace amp {

namespace {

// True if the exported file computes the node in float16.
bool in_half(const SourceGraph& g, const ExportOptions& o, int node) {
  const size_t n = at(node);
  if (g.nodes[n].place == Place::training) return false;
  if (o.precision == "fp16") return n >= o.wide.size() || !o.wide[n];
  return n < o.compute.size() && o.compute[n] == DType::f16;
}

}  // namespace

// Returns notes on a bug of onnxruntime, found by tests. Versions 1.23.2, 1.24.4 and 1.26.0 fail ("Attempting to get
// index by a name which does not exist: InsertedPrecisionFreeCast_..."). Versions 1.20.1, 1.22.1, 1.28.0, 1.31.1 and
// 1.32.0 load the same files.
std::vector<std::string> engine_notes(const SourceGraph& graph, const ExportOptions& options) {
  if (options.precision == "fp32") return {};
  int norms = 0;
  for (const Unit& u : find_units(graph)) {
    if (u.kind != "LayerNormalization" && u.kind != "RMSNormalization") continue;
    norms += std::any_of(u.nodes.begin(), u.nodes.end(), [&](int n) { return in_half(graph, options, n); });
  }
  if (norms == 0) return {};
  return {cat(norms, norms == 1 ? " layer norm is" : " layer norms are",
              " unfused in float16: onnxruntime 1.23 to 1.26 does not load that by default "
              "(SimplifiedLayerNormFusion; 1.22 and from 1.28 on do); load with ORT_ENABLE_EXTENDED, or "
              "disabled_optimizers=['SimplifiedLayerNormFusion']")};
}

}  // namespace amp
