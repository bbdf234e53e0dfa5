// Converts adapters of maps to adapters of PyTorch's modules. onnxruntime-genai's builder packs q, k and v of most
// models into one map and splits gate|up of Phi-3, so a module may be a part of a map, or hold several maps.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/adapter/matrices.h"
#include "importer/adapter/module_names.h"
#include "importer/adapter/trained.h"
#include "importer/surgery/low_rank.h"

namespace amp {
namespace {

// An adapter's values for some of a module's outputs.
struct ModulePiece {
  HostTensor a, b, magnitude;  // A [in, r], B [r, n], m [n]
  double alpha = 0, scale = 0;
  int64_t from = 0;  // first output of the module
};

struct PackedModule {
  int64_t in = 0, out = 0;
  std::vector<ModulePiece> pieces;
};

[[noreturn]] void refuse_module(const std::string& fact) {
  fail(Exit::usage, "E_LORA_EXPORT", fact, "export with `lora_export` keep or merge");
}

std::vector<std::string> components(const std::string& name) {
  std::string text = name;
  for (const std::string_view end : {".weight", ".MatMul"}) {
    if (text.ends_with(end) && text.size() > end.size()) text.resize(text.size() - end.size());
  }
  return split(text, '.');
}

// True for the builder's names of a layer's maps: "model.layers.0.attn.o_proj".
bool is_builders(const std::vector<std::string>& path) {
  return path.size() >= 5 && path[0] == "model" && path[1] == "layers" && one_of(path[3], {"attn", "mlp"});
}

class Namer {
 public:
  explicit Namer(std::string model_type) : type_(std::move(model_type)) {}

  // Returns PyTorch's name of the module with a builder's or an exporter's name.
  std::string module(const std::string& name) const {
    std::vector<std::string> path = components(name);
    if (is_builders(path) && path[3] == "attn") {
      path[3] = "self_attn";
      if (path[4] == "o_proj" && type_ == "phi") path[4] = "dense";
    }
    return join(path, ".");
  }

  // True if PyTorch computes the parts of this map in one module.
  bool packs(const std::string& map) const {
    return !is_builders(components(map)) || type_.starts_with("phi3") || type_.starts_with("phi4");
  }

  // Returns the module in which PyTorch packs a map that is separate in the graph; empty if there is none.
  std::string packed(const std::string& map) const {
    std::vector<std::string> path = components(map);
    if (!is_builders(path) || !packs(map) || !one_of(path.back(), {"gate_proj", "up_proj"})) return {};
    path.back() = "gate_up_proj";
    return join(path, ".");
  }

 private:
  std::string type_;
};

class PeftBuilder {
 public:
  PeftBuilder(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites,
              const TrainedValues& values, const PeftNames& names)
      : adapters_(adapters), sites_(sites), values_(values), names_(names), namer_(names.model_type) {}

  PeftAdapter run() {
    for (const LoraAdapter& a : adapters_) add(a);
    PeftAdapter out;
    out.base = names_.base;
    if (names_.start) out = without_modules(*names_.start);
    if (out.base.empty()) out.base = names_.base;
    out.rslora = rslora();
    out.dora = adapters_.front().magnitude >= 0;
    for (const auto& [name, module] : modules_) out.modules.push_back(combined(name, module));
    if (names_.start) {
      take_names(*names_.start, out);
    } else {
      out.targets = common_targets(out.modules);
    }
    std::sort(out.modules.begin(), out.modules.end(), [](const auto& x, const auto& y) { return x.name < y.name; });
    return out;
  }

 private:
  static PeftAdapter without_modules(PeftAdapter adapter) {
    adapter.modules.clear();
    return adapter;
  }

  // Returns whether the options chose rsLoRA's scaling, which the scales show. For r = 1 the two rules are equal.
  bool rslora() const {
    return std::any_of(adapters_.begin(), adapters_.end(), [](const LoraAdapter& a) {
      return a.rank > 1 && std::abs(a.scale - a.alpha / std::sqrt(static_cast<double>(a.rank))) < 1e-9 * a.alpha;
    });
  }

  const AdapterSite& site_of(const LoraAdapter& a) const {
    const auto it = std::find_if(sites_.begin(), sites_.end(), [&](const AdapterSite& s) {
      return s.weight == a.weight && s.in == a.in && s.out == a.map_out;
    });
    if (it == sites_.end()) refuse_module(cat("'", printable(a.name), "' is not a product with a weight"));
    return *it;
  }

  void add_piece(const std::string& module, const LoraAdapter& a, int64_t first, int64_t size, int64_t from,
                 int64_t out) {
    PackedModule& m = modules_[module];
    m.in = a.in;
    m.out = out;
    m.pieces.push_back({values_.at(a.a), columns_of(values_.at(a.b), first, size),
                        a.magnitude < 0 ? HostTensor() : vector_range(values_.at(a.magnitude), first, size), a.alpha,
                        a.scale, from});
  }

  void add(const LoraAdapter& a) {
    const AdapterSite& site = site_of(a);
    if (const std::string packed = namer_.packed(site.map); !packed.empty()) {
      const bool gate = components(site.map).back() == "gate_proj";
      const int64_t other = sibling(site.map, gate ? "up_proj" : "gate_proj").out;
      add_piece(packed, a, 0, a.out, gate ? 0 : other, site.out + other);
    } else if (site.parts.empty() || (a.part.empty() && namer_.packs(site.map))) {
      add_piece(namer_.module(site.map), a, 0, a.out, 0, a.out);
    } else if (namer_.packs(site.map)) {
      add_piece(namer_.module(site.map), a, 0, a.out, a.first, site.out);
    } else if (!a.part.empty()) {
      add_piece(namer_.module(part_name(site.map, a.part)), a, 0, a.out, 0, a.out);
    } else {
      for (const LinearMap::Part& p : site.parts)
        add_piece(namer_.module(part_name(site.map, p.role)), a, p.first, p.size, 0, p.size);
    }
  }

  const AdapterSite& sibling(const std::string& map, const std::string& last) const {
    std::vector<std::string> path = components(map);
    path.back() = last;
    const auto it =
        std::find_if(sites_.begin(), sites_.end(), [&](const AdapterSite& s) { return components(s.map) == path; });
    if (it == sites_.end())
      refuse_module(cat("'", printable(map), "' has no '", last, "' beside it, with which PyTorch packs it"));
    return *it;
  }

  PeftModule combined(const std::string& name, const PackedModule& m) const {
    const ModulePiece& first = m.pieces.front();
    int64_t covered = 0, rank = 0;
    bool shared = true, dora = false;
    for (const ModulePiece& p : m.pieces) {
      covered += p.b.dims()[1];
      rank += p.a.dims()[1];
      shared &= p.scale == first.scale && same_values(p.a, first.a);
      dora |= static_cast<bool>(p.magnitude);
    }
    if (dora && covered < m.out)
      refuse_module(
          cat("DoRA adapts a part of '", printable(name), "', and PyTorch has one magnitude for each output"));
    if (shared) rank = first.a.dims()[1];
    HostTensor a = HostTensor::zeros(DType::f32, {m.in, rank}), b = HostTensor::zeros(DType::f32, {rank, m.out});
    HostTensor magnitude = dora ? HostTensor::zeros(DType::f32, {1, m.out}) : HostTensor();
    int64_t at = 0;
    for (const ModulePiece& p : m.pieces) {
      set_block(a, p.a, 0, at);
      set_block(b, multiplied(p.b, p.scale / first.scale), at, p.from);
      if (dora) set_block(magnitude, p.magnitude.reshaped({1, p.magnitude.numel()}), 0, p.from);
      if (!shared) at += p.a.dims()[1];
    }
    const double growth = static_cast<double>(rank) / static_cast<double>(first.a.dims()[1]);
    return {name, transposed_matrix(a), transposed_matrix(b), dora ? magnitude.reshaped({m.out}) : HostTensor(),
            first.alpha * (rslora() ? std::sqrt(growth) : growth)};
  }

  // Gives the modules the names that they had in the folder from which training began. Also restores the types of that
  // folder if these represent the values exactly.
  static void take_names(const PeftAdapter& start, PeftAdapter& out) {
    std::vector<ModuleShape> theirs;
    std::vector<NamedMap> ours;
    for (const PeftModule& m : start.modules) theirs.push_back({m.name, m.a.dims()[1], m.b.dims()[0]});
    for (const PeftModule& m : out.modules) ours.push_back({{m.name}, m.a.dims()[1], m.b.dims()[0], {}});
    for (const Placement& p : place_modules(theirs, ours)) {
      const PeftModule& from = start.modules[p.module];
      PeftModule& to = out.modules[p.map];
      to.name = from.name;
      to.a = in_type(to.a, from.a.dtype());
      to.b = in_type(to.b, from.b.dtype());
      if (from.magnitude && to.magnitude)
        to.magnitude = in_type(to.magnitude.reshaped(from.magnitude.dims()), from.magnitude.dtype());
    }
  }

  static HostTensor in_type(const HostTensor& t, DType type) {
    const HostTensor cast = t.cast(type);
    return same_values(cast.cast(DType::f32), t) ? cast : t;
  }

  // Returns the last components of the modules' names if each layer of the model has a module for each of them;
  // otherwise an empty list.
  std::vector<std::string> common_targets(const std::vector<PeftModule>& modules) const {
    const auto layer_of = [](const std::string& name) {
      const std::vector<std::string> path = split(name, '.');
      const auto it = std::find_if(path.begin(), path.end(), [](const std::string& c) { return all_digits(c); });
      return it == path.end() ? std::string() : *it;
    };
    std::set<std::string> layers;
    for (const AdapterSite& s : sites_) layers.insert(layer_of(s.module));
    layers.erase("");
    std::map<std::string, size_t> counts;
    for (const PeftModule& m : modules) ++counts[components(m.name).back()];
    std::vector<std::string> targets;
    for (const auto& [last, n] : counts) {
      if (n != layers.size()) return {};
      targets.push_back(last);
    }
    return targets;
  }

  const std::vector<LoraAdapter>& adapters_;
  const std::vector<AdapterSite>& sites_;
  const TrainedValues& values_;
  const PeftNames& names_;
  const Namer namer_;
  std::map<std::string, PackedModule> modules_;
};

}  // namespace

PeftAdapter peft_values(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites,
                        const TrainedValues& values, const PeftNames& names) {
  return PeftBuilder(adapters, sites, values, names).run();
}

}  // namespace amp
