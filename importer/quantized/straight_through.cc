// Searches go backward from a value through its producers. A search for a gradient skips inputs that block gradients
// (importer/discover/positions.h); a search for a dependency does not. gradient_stops() also searches forward, from the
// weights that no gradient reaches.
#include "importer/quantized/straight_through.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/cat.h"
#include "base/text.h"
#include "importer/discover/positions.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

// True for an output of indices: of TopK and Unique, and the positions of MaxPool's maxima.
bool is_index_output(const SourceNode& n, int value) {
  return (n.op == "TopK" || n.op == "MaxPool" || n.op == "Unique") && n.outputs[0] != value;
}
bool passes_gradient(const SourceNode& n, int output, size_t input) {
  return !is_index_output(n, output) && !blocks_gradient(n, static_cast<int>(input));
}

class Finder {
 public:
  explicit Finder(SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  std::vector<std::string> run() {
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (g_.nodes[n].op == "Sub" && g_.nodes[n].domain.empty() && g_.nodes[n].inputs.size() == 2)
        difference(static_cast<int>(n));
    }
    return std::move(found_);
  }

 private:
  SourceNode& node(int n) { return g_.nodes[static_cast<size_t>(n)]; }
  // Returns the value that is copied to v by Identity nodes, or v. Exporters drop detach() or write it as Identity.
  int same(int v) const {
    while (v >= 0 && g_.value(v).producer >= 0) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(g_.value(v).producer)];
      if (n.op != "Identity" || !n.domain.empty()) break;
      v = n.inputs[0];
    }
    return v;
  }
  const std::vector<int>& users(int v) const { return consumers_[static_cast<size_t>(v)]; }

  // Returns the nodes that read v, directly or through Identity nodes.
  std::vector<int> users_behind_identity(int v) const {
    std::vector<int> out, open{v};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int user : users(at)) {
        const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
        if (n.op == "Identity" && n.domain.empty())
          open.push_back(n.outputs[0]);
        else
          out.push_back(user);
      }
    }
    return out;
  }

  void difference(int sub) {
    const int a = same(node(sub).inputs[0]), b = same(node(sub).inputs[1]);
    if (a < 0 || b < 0 || a == b) return;
    if (const int p = g_.value(a).producer; p >= 0 && node(p).op == "Add" && node(p).domain.empty()) {  // (f + x) - x
      const std::vector<int> in{same(node(p).inputs[0]), same(node(p).inputs[1])};
      for (size_t k = 0; k < 2; ++k) {
        if (in[k] != b || !estimates(in[1 - k], b) || users(node(p).outputs[0]).size() != 1) continue;
        detach(p, static_cast<int64_t>(1 - k));
        detach(sub, 1);
        tell(sub, in[1 - k]);
        return;
      }
    }
    for (const int user : users_behind_identity(node(sub).outputs[0])) {
      SourceNode& n = node(user);
      if (!n.domain.empty() || n.inputs.size() != 2) continue;
      const int first = same(n.inputs[0]), second = same(n.inputs[1]), made = node(sub).outputs[0];
      if (n.op == "Add" && (first == b || second == b) && estimates(a, b)) {  // x + (f - x)
        detach(user, first == made ? 0 : 1);
        tell(user, a);
      } else if (n.op == "Sub" && first == a && second == made && estimates(b, a)) {  // x - (x - f)
        detach(user, 1);
        tell(user, b);
      }
    }
  }

  void detach(int n, int64_t input) { node(n).attrs.set(kDetached, std::vector<int64_t>{input}); }
  void tell(int n, int f) {
    const int by = g_.value(f).producer;
    found_.push_back(cat("'", printable(node(n).name), "' (", by < 0 ? "?" : printable(node(by).name), ")"));
  }

  // True if f depends on x and no gradient passes from f to x.
  bool estimates(int f, int x) const { return reaches(f, x, false) && !reaches(f, x, true); }
  bool reaches(int from, int to, bool by_gradient) const {
    std::vector<int> open{from};
    std::set<int> seen{from};
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      if (v == to) return true;
      const int p = g_.value(v).producer;
      if (p < 0) continue;
      const SourceNode& n = g_.nodes[static_cast<size_t>(p)];
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        const int in = n.inputs[i];
        if (in >= 0 && (!by_gradient || passes_gradient(n, v, i)) && seen.insert(in).second) open.push_back(in);
      }
    }
    return false;
  }

  SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<std::string> found_;
};

// Returns the value from which v is computed by nodes that rearrange or cast a scale.
int scale_source(const SourceGraph& g, int v) {
  for (int steps = 0; v >= 0 && steps < 8; ++steps) {
    const int p = g.value(v).producer;
    if (p < 0) return v;
    const SourceNode& n = g.nodes[static_cast<size_t>(p)];
    if (!n.domain.empty() || !one_of(n.op, {"Identity", "Reshape", "Unsqueeze", "Squeeze", "Cast", "Transpose"}))
      return v;
    v = n.inputs[0];
  }
  return v;
}

// True for a dynamic scale, an integer product converted to floating point, or a product with one of these.
bool is_dynamic(const SourceGraph& g, int v) {
  v = scale_source(g, v);
  const int p = v < 0 ? -1 : g.value(v).producer;
  if (p < 0) return false;
  const SourceNode& n = g.nodes[static_cast<size_t>(p)];
  if (n.op == "Mul") return n.attrs.has(kQuantizerData);
  if (n.op == "DynamicQuantizeLinear") return v == n.outputs.at(1);
  return n.op == "MatMulInteger" || n.op == "ConvInteger";
}

constexpr int64_t kLargeWeight = 64;

// True for values that are trained or that would be trained if a gradient reached them.
bool is_weight(const SourceGraph& g, int v, const std::vector<std::vector<int>>& consumers) {
  const SourceValue& x = g.value(v);
  if (x.kind == SourceKind::parameter) return x.trainable;
  if (x.kind != SourceKind::constant || !x.data || !is_float(x.data.dtype()) || x.data.numel() < kLargeWeight)
    return false;
  return std::any_of(consumers[static_cast<size_t>(v)].begin(), consumers[static_cast<size_t>(v)].end(), [&](int user) {
    const SourceNode& n = g.nodes[static_cast<size_t>(user)];
    return n.inputs.size() > 1 && n.inputs[1] == v && one_of(n.op, {"MatMul", "Gemm", "Conv"});
  });
}

// Adds a line for each rounding node that reads the trained tensor v. An exporter may have folded w / s into v, where w
// is a weight and s the step of its quantizer. Then v is not a weight, and w would be trained without being quantized
// again.
void add_steps_of(const SourceGraph& g, int v, const std::vector<int>& users, const std::vector<char>& live,
                  std::vector<std::string>& lines) {
  const auto is = [&](int user, const auto& what) {
    return live[static_cast<size_t>(user)] && what(g.nodes[static_cast<size_t>(user)]);
  };
  const auto detached = [&](int user) { return is(user, [](const SourceNode& n) { return n.attrs.has(kDetached); }); };
  if (std::any_of(users.begin(), users.end(), detached)) return;
  for (const int user : users) {
    if (!is(user, [](const SourceNode& n) { return one_of(n.op, {"Round", "Floor", "Ceil", "Sign"}); })) continue;
    lines.push_back(cat("the gradient of '", printable(g.shown(v)), "' leaves out ", g.describe_node(user),
                        ", which reads it: where the exporter computed this tensor from a weight, `freeze` it"));
  }
}

}  // namespace

void find_straight_through(Built& built) {
  std::vector<std::string> found = Finder(built.graph).run();
  if (found.empty()) return;
  const size_t n = found.size();
  if (n > 4) {
    found.resize(3);
    found.push_back(cat("and ", n - 3, " more"));
  }
  built.notes.push_back(cat(n, n == 1 ? " straight-through estimator" : " straight-through estimators",
                            ", x + (f(x) - x) without a gradient of f: the gradient passes to x (`straight_through` "
                            "false: not): ",
                            join(found, ", ")));
}

void find_dynamic_scales(SourceGraph& g) {
  for (SourceNode& n : g.nodes) {
    if (n.op != "Mul" || !n.domain.empty() || n.inputs.size() != 2) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (!is_dynamic(g, n.inputs[i])) continue;
      n.attrs.set(kQuantizerData, static_cast<int64_t>(i));
      break;
    }
  }
}

std::vector<std::string> gradient_stops(const SourceGraph& g) {
  const std::vector<std::vector<int>> consumers = g.consumers();
  const std::vector<char> live = live_nodes(g);
  std::vector<char> reached(g.values.size(), 0);  // indexed by value: 1 if a gradient reaches it
  // Indexed by value: 1 for an output or a value that is rearranged into one. A gradient starts before a final ArgMax.
  std::vector<char> end(g.values.size(), 0);
  for (const int o : g.outputs) reached[static_cast<size_t>(o)] = end[static_cast<size_t>(o)] = 1;
  // Search backward from the outputs along inputs that pass gradients.
  for (size_t k = g.nodes.size(); k-- > 0;) {
    const SourceNode& n = g.nodes[k];
    for (const int o : n.outputs) {
      if (o < 0 || !reached[static_cast<size_t>(o)]) continue;
      const bool last = end[static_cast<size_t>(o)];
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] < 0) continue;
        if (last || passes_gradient(n, o, i)) reached[static_cast<size_t>(n.inputs[i])] = 1;
        if (last && is_view(n, static_cast<int>(i))) end[static_cast<size_t>(n.inputs[i])] = 1;
      }
    }
  }
  // Search forward from each unreached weight to the nodes whose outputs are reached.
  std::map<int, std::vector<std::string>> stops;
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (reached[v] || !is_weight(g, static_cast<int>(v), consumers)) continue;
    std::vector<int> open{static_cast<int>(v)};
    std::set<int> seen{static_cast<int>(v)}, at;
    while (!open.empty()) {
      const int value = open.back();
      open.pop_back();
      for (const int user : consumers[static_cast<size_t>(value)]) {
        if (!live[static_cast<size_t>(user)]) continue;
        for (const int o : g.nodes[static_cast<size_t>(user)].outputs) {
          if (o < 0 || !seen.insert(o).second) continue;
          if (reached[static_cast<size_t>(o)])
            at.insert(user);
          else
            open.push_back(o);
        }
      }
    }
    for (const int n : at) stops[n].push_back(cat("'", printable(g.shown(static_cast<int>(v))), "'"));
  }
  // One message per node, with at most four names.
  std::vector<std::string> lines;
  for (auto& [n, names] : stops) {
    const size_t count = names.size();
    if (count > 4) {
      names.resize(3);
      names.push_back(cat("and ", count - 3, " more"));
    }
    lines.push_back(cat("gradients stop at ", g.describe_node(n), ": ", count,
                        count == 1 ? " weight gets" : " weights get", " none: ", join(names, ", ")));
  }
  // Trained tensors that a rounding node reads get a different message.
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (reached[v] && g.values[v].kind == SourceKind::parameter && g.values[v].trainable)
      add_steps_of(g, static_cast<int>(v), consumers[v], live, lines);
  }
  return lines;
}

}  // namespace amp
