#include "importer/surgery/decoder_caches.h"

#include <set>

#include "graph/new_positions.h"

namespace amp {

void feed_caches(SourceGraph& g, const DecoderCaches& caches) {
  const auto feed = [&](int v) {
    SourceValue& x = g.values[static_cast<size_t>(v)];
    x.kind = SourceKind::input;
    x.data = {};
    g.inputs.push_back(v);
  };
  std::set<int> presents;
  for (const DecoderCaches::Part& p : caches.parts) {
    feed(p.past);
    presents.insert(p.present);
  }
  for (const int v : caches.lasts) feed(v);
  for (const int v : caches.totals) feed(v);
  for (SourceNode& n : g.nodes) {
    if (n.op != "GroupQueryAttention" || n.outputs.size() < 3 || !presents.count(n.outputs[1])) continue;
    n.attrs.set(kNewPositions, int64_t{1});
    n.attrs.set("sliding_window_cache", int64_t{0});
  }
}

}  // namespace amp
