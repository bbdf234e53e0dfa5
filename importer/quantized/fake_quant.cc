// Walks from each Round upward to a product with a constant (and a Clip before it) and downward to the product with the
// scale. If a scale and a Clip are found, all nodes of the chain are marked.
#include "importer/quantized/fake_quant.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

struct Link {
  int node, data;  // data: index of the data input
};

class FakeQuantFinder {
 public:
  explicit FakeQuantFinder(SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  int run() {
    int found = 0;
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (g_.nodes[n].op == "Round" && g_.nodes[n].domain.empty()) found += quantizer(static_cast<int>(n));
    }
    return found;
  }

 private:
  SourceNode& node(int n) { return g_.nodes[static_cast<size_t>(n)]; }

  // True for a constant, possibly rearranged or cast.
  bool fixed(int v) const {
    for (int steps = 0; v >= 0 && steps < 8; ++steps) {
      const SourceValue& x = g_.values[static_cast<size_t>(v)];
      if (x.kind == SourceKind::constant) return static_cast<bool>(x.data);
      if (x.producer < 0) return false;
      const SourceNode& n = g_.nodes[static_cast<size_t>(x.producer)];
      const bool view =
          n.op == "Cast" || n.op == "Identity" || n.op == "Reshape" || n.op == "Unsqueeze" || n.op == "Squeeze";
      if (!view || n.inputs.empty()) return false;
      v = n.inputs[0];
    }
    return false;
  }
  int64_t elements(int v) const {
    const HostTensor& t = g_.values[static_cast<size_t>(v)].data;
    return t ? t.numel() : 0;
  }

  bool is_clip(const SourceNode& n) const {
    if (n.op != "Clip" || !n.domain.empty()) return false;
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      if (n.inputs[i] >= 0 && !fixed(n.inputs[i])) return false;
    }
    return n.inputs.size() > 1 || n.attrs.has("min") || n.attrs.has("max");
  }
  bool scales(const SourceNode& n) const { return n.op == "Mul" || n.op == "Div"; }
  // Returns the index of the data input if n is an arithmetic operation with a constant, else -1.
  int data_input(const SourceNode& n) const {
    if (!n.domain.empty() || n.inputs.size() != 2 || !(scales(n) || n.op == "Add" || n.op == "Sub")) return -1;
    const bool first = fixed(n.inputs[0]), second = fixed(n.inputs[1]);
    if (first && second)
      return n.op == "Div" || n.op == "Sub" || elements(n.inputs[0]) >= elements(n.inputs[1]) ? 0 : 1;
    if (second) return 0;
    return first && n.op != "Div" && n.op != "Sub" ? 1 : -1;
  }

  bool quantizer(int round) {
    std::vector<Link> chain{{round, 0}};
    bool scaled = false, clipped = false;
    for (int v = node(round).inputs.at(0); v >= 0;) {  // up to the product with a constant and a Clip before it
      const int p = g_.values[static_cast<size_t>(v)].producer;
      if (p < 0) break;
      const SourceNode& n = node(p);
      const bool clip = is_clip(n);
      const int data = clip ? 0 : data_input(n);
      if (data < 0 || (scaled && !clip)) break;
      chain.push_back({p, data});
      scaled = scaled || scales(n);
      clipped = clipped || clip;
      v = n.inputs[static_cast<size_t>(data)];
    }
    for (int v = node(round).outputs.at(0); v >= 0;) {  // down to the product with the scale
      const auto& users = consumers_[static_cast<size_t>(v)];
      if (users.size() != 1) break;
      const SourceNode& n = node(users[0]);
      const bool clip = is_clip(n) && n.inputs[0] == v;
      const int data = clip ? 0 : data_input(n);
      if (data < 0 || n.inputs[static_cast<size_t>(data)] != v) break;
      chain.push_back({users[0], data});
      clipped = clipped || clip;
      if (scales(n)) break;
      v = n.outputs.at(0);
    }
    if (!scaled || !clipped) return false;
    for (const Link& l : chain) node(l.node).attrs.set(kQuantizerData, int64_t{l.data});
    node(round).attrs.set(kStraightThrough, int64_t{1});
    return true;
  }

  SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
};

}  // namespace

void find_quantizers(Built& built) {
  const int found = FakeQuantFinder(built.graph).run();
  if (found == 0) return;
  built.notes.push_back(
      cat(found, " Round nodes are quantizers (scale, Round, Clip): gradients pass straight through them"));
}

}  // namespace amp
