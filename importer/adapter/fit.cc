// A map that computes several parts side by side (q|k|v) has either one adapter per part or one adapter for all parts
// (LoraOptions::fused). One of the two forms is used for the whole model. A file that has both forms is converted to
// the first: each part gets a copy of the shared A, with its columns of B. If B is block diagonal, as in a slot for
// q|k|v, the pair is divided into its blocks.
#include "importer/adapter/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "importer/adapter/matrices.h"
#include "importer/adapter/module_names.h"

namespace amp {
namespace {

// A range of rows of B, which is also a range of columns of A.
struct Rows {
  int64_t first = 0, size = 0;
};

// Returns the rows of B that belong to each part. This requires that each row is zero outside of one part and that the
// parts' rows follow one another. Rows of zeros belong to the preceding part. Parts that no adapter changes have no
// rows.
std::optional<std::vector<Rows>> diagonal_blocks(const HostTensor& b, const std::vector<LinearMap::Part>& parts) {
  std::vector<Rows> out(parts.size());
  size_t current = 0;
  bool any = false;
  for (int64_t i = 0; i < b.dims()[0]; ++i) {
    const float* const row = b.as<float>() + i * b.dims()[1];
    std::optional<size_t> mine;
    for (size_t p = 0; p < parts.size(); ++p) {
      const float* const first = row + parts[p].first;
      if (std::all_of(first, first + parts[p].size, [](float x) { return x == 0; })) continue;
      if (mine || p < current) return std::nullopt;
      mine = p;
    }
    any |= mine.has_value();
    current = mine.value_or(current);
    if (out[current].size++ == 0) out[current].first = i;
  }
  return any ? std::optional(out) : std::nullopt;
}

NamedMap named(const SourceGraph& g, const LinearMap& m) {
  NamedMap out{{m.name}, m.in, m.out, m.parts};
  const SourceValue& w = g.value(m.weight);
  for (const std::string& name : {w.alias, w.name}) {
    if (!name.empty()) out.names.push_back(name);
  }
  for (const LinearMap::Use& u : m.uses) out.names.push_back(g.nodes[static_cast<size_t>(u.node)].name);
  return out;
}

// Escapes the characters that have a special meaning in a glob.
std::string literal(const std::string& name) {
  std::string out;
  for (const char c : name)
    out += c == '*' || c == '?' || c == '[' ? cat('[', std::string(1, c), ']') : std::string(1, c);
  return out;
}

class Fitter {
 public:
  Fitter(const SourceGraph& g, const LoadedAdapter& adapter) : adapter_(adapter) {
    for (LinearMap& m : find_linear_maps(g)) {
      if (!m.is_product()) continue;
      names_.push_back(named(g, m));
      maps_.push_back(std::move(m));
    }
    std::vector<ModuleShape> shapes;
    for (const LoadedModule& m : adapter.modules) shapes.push_back({m.name, m.a.dims()[0], m.b.dims()[1]});
    placed_ = place_modules(shapes, names_);
  }

  // Returns true if all maps with parts have one adapter for all parts.
  bool fused() const {
    bool any = false;
    for (const Placement& p : placed_) {
      if (maps_[p.map].parts.empty()) continue;
      if (!p.part.empty() || diagonal_blocks(adapter_.modules[p.module].b, maps_[p.map].parts)) return false;
      any = true;
    }
    return any;
  }

  std::vector<FittedModule> modules(bool fused) const {
    std::vector<FittedModule> out;
    for (size_t i = 0; i < placed_.size(); ++i) {
      const Placement& p = placed_[i];
      const LinearMap& map = maps_[p.map];
      const LoadedModule& m = adapter_.modules[p.module];
      if (p.size < m.b.dims()[1]) {  // the file's module is packed (such as q|k|v); this map takes a part of it
        const std::vector<LinearMap::Part> pieces = pieces_of(p.module);
        const auto mine = std::find_if(pieces.begin(), pieces.end(), [&](const auto& x) { return x.first == p.from; });
        add_part(map, m, pieces, static_cast<size_t>(mine - pieces.begin()), map.name, out);
      } else if (!p.part.empty()) {
        add_part(map, m, {{p.part, 0, p.size}}, 0, part_name(map.name, p.part), out);
      } else if (fused || map.parts.empty()) {
        add_part(map, m, {{"", 0, map.out}}, 0, map.name, out);
      } else {
        for (size_t k = 0; k < map.parts.size(); ++k)
          add_part(map, m, map.parts, k, part_name(map.name, map.parts[k].role), out);
      }
    }
    return out;
  }

 private:
  // Removes the factor of the map's node (alpha of Gemm), which files of onnxruntime include in B.
  HostTensor unscaled(const HostTensor& b, const LinearMap& map) const {
    const double factor = map.uses.front().factor;
    return adapter_.scaled ? multiplied(b, 1 / factor) : b;
  }

  // Returns for each map of the packed module the output rows that the map computes.
  std::vector<LinearMap::Part> pieces_of(size_t module) const {
    std::vector<LinearMap::Part> out;
    for (const Placement& p : placed_) {
      if (p.module == module) out.push_back({"", p.from, p.size});
    }
    return out;
  }

  // Appends the adapter of one of the parts into which a module's outputs are divided.
  void add_part(const LinearMap& map, const LoadedModule& m, const std::vector<LinearMap::Part>& parts, size_t which,
                const std::string& name, std::vector<FittedModule>& out) const {
    const auto blocks = parts.size() > 1 ? diagonal_blocks(m.b, parts) : std::nullopt;
    const Rows rows = blocks ? (*blocks)[which] : Rows{0, m.rank()};
    if (rows.size == 0) return;
    const LinearMap::Part& part = parts[which];
    const auto share = static_cast<double>(rows.size) / static_cast<double>(m.rank());
    out.push_back({name, m.name, matrix_block(m.a, 0, m.a.dims()[0], rows.first, rows.size),
                   unscaled(matrix_block(m.b, rows.first, rows.size, part.first, part.size), map),
                   vector_range(m.magnitude, part.first, part.size),
                   m.alpha * (adapter_.rslora ? std::sqrt(share) : share)});
  }

  const LoadedAdapter& adapter_;
  std::vector<LinearMap> maps_;
  std::vector<NamedMap> names_;
  std::vector<Placement> placed_;
};

}  // namespace

FittedAdapter::FittedAdapter(const SourceGraph& graph, const LoadedAdapter& adapter)
    : rslora_(adapter.rslora), dora_(adapter.dora) {
  const Fitter fitter(graph, adapter);
  fused_ = fitter.fused();
  modules_ = fitter.modules(fused_);
}

void FittedAdapter::choose(LoraOptions& options) const {
  options.rslora = rslora_;
  options.dora = dora_;
  options.fused = fused_;
  options.r = modules_.front().a.dims()[1];
  options.alpha = modules_.front().alpha;
  options.targets.clear();
  options.exact_targets = true;  // else an adapter of an embedding would also select the tied head
  for (const FittedModule& m : modules_) {
    const std::string name = literal(m.name);
    options.targets.push_back(m.name);
    if (m.a.dims()[1] != options.r) options.ranks.emplace_back(name, m.a.dims()[1]);
    if (m.alpha != options.alpha) options.alphas.emplace_back(name, m.alpha);
  }
}

void FittedAdapter::fill(SourceGraph& graph, const std::vector<LoraAdapter>& adapters) const {
  std::map<std::string, const FittedModule*> by_name;
  for (const FittedModule& m : modules_) by_name[m.name] = &m;
  if (by_name.size() != adapters.size() || by_name.size() != modules_.size())
    fail(Exit::data, "E_ADAPTER_FIT",
         cat("the adapter's ", modules_.size(), " modules fit ", adapters.size(),
             " maps of the model, because several maps have the same name"),
         "give the weights of the model different names");
  for (const LoraAdapter& a : adapters) {
    const auto it = by_name.find(a.name);
    check(it != by_name.end(), "an adapter that no module of the file asked for");
    const auto set = [&](int v, const HostTensor& value) {
      if (v < 0) return;
      SourceValue& to = graph.values[static_cast<size_t>(v)];
      check(to.data.dims() == value.dims(), "an adapter's value of another shape");
      to.data = value.cast(to.data.dtype());
    };
    set(a.a, it->second->a);
    set(a.b, it->second->b);
    set(a.magnitude, it->second->magnitude);
  }
}

}  // namespace amp
