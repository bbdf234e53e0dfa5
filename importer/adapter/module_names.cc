// Every pair of a module and a map is compared by the components of their paths. Three relations are possible, in this
// order of preference: the module is the map; the module is a part of a packed map (q_proj in qkv_proj); the map is a
// part of a packed module. A module that fits no map is refused by name, because an adapter that is applied in part
// computes other outputs than its author's.
#include "importer/adapter/module_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

using Path = std::vector<std::string>;

// True for a component that may follow the module's name: an operator or the kind of a tensor.
bool is_tail(const std::string& c) {
  for (const char* start : {"MatMul", "Gemm", "FusedMatMul", "weight", "Conv"}) {
    if (c.starts_with(start)) return true;
  }
  return one_of(c, {"qweight", "kernel", "base_layer", "linear", "output_0"});
}

// Returns the role of a module that computes a part of a packed module; empty for other modules.
std::string part_role(const std::string& component) {
  static const std::map<std::string, std::string> roles = {
      {"q_proj", "q"}, {"k_proj", "k"}, {"v_proj", "v"}, {"gate_proj", "gate"}, {"up_proj", "up"}, {"query", "q"},
      {"key", "k"},    {"value", "v"},  {"q_lin", "q"},  {"k_lin", "k"},        {"v_lin", "v"},    {"q", "q"},
      {"k", "k"},      {"v", "v"}};
  const auto it = roles.find(component);
  return it == roles.end() ? std::string() : it->second;
}

// Returns the parts of a packed module in the order of its rows; empty for other modules.
std::vector<std::string> packed_roles(const std::string& component) {
  if (one_of(component, {"qkv_proj", "qkv", "Wqkv", "query_key_value", "c_attn", "in_proj"})) return {"q", "k", "v"};
  if (one_of(component, {"gate_up_proj", "gate_up"})) return {"gate", "up"};
  return {};
}

// True if all components of the shorter path occur in the longer one, in the same order.
bool is_subsequence(const Path& a, size_t a_size, const Path& b, size_t b_size) {
  if (a_size > b_size) return is_subsequence(b, b_size, a, a_size);
  size_t at = 0;
  for (size_t i = 0; i < b_size && at < a_size; ++i) at += b[i] == a[at];
  return at == a_size;
}

struct Fit {
  enum class Kind : uint8_t { none, piece, part, whole } kind = Kind::none;
  size_t common = 0;   // number of equal components at the end of both paths
  size_t missing = 0;  // number of components that only one of the paths has
  std::string role;    // the name of the part, for Kind::part and Kind::piece
  bool better(const Fit& o) const {
    if (kind != o.kind) return kind > o.kind;
    return common != o.common ? common > o.common : missing < o.missing;
  }
  bool equal(const Fit& o) const { return !better(o) && !o.better(*this); }
};

// Compares the components of the two paths without the last component of each.
bool compare_paths(const Path& module, const Path& map, Fit& fit) {
  size_t a = module.size() - 1, b = map.size() - 1;
  fit.common = 1;
  while (a > 0 && b > 0 && module[a - 1] == map[b - 1]) --a, --b, ++fit.common;
  fit.missing = a > b ? a - b : b - a;
  return is_subsequence(module, a, map, b);
}

Fit compare(const Path& module, const Path& path, const NamedMap& map) {
  Fit fit;
  if (module.empty() || path.empty() || !compare_paths(module, path, fit)) return {};
  const std::string &mine = module.back(), &theirs = path.back();
  if (mine == theirs) {
    fit.kind = Fit::Kind::whole;
    return fit;
  }
  const std::string role = part_role(mine), map_role = part_role(theirs);
  const auto has = [&](const LinearMap::Part& p) { return p.role == role; };
  const std::vector<std::string> packed = packed_roles(mine);
  if (!role.empty() && map_role.empty() && std::any_of(map.parts.begin(), map.parts.end(), has)) {
    fit.kind = Fit::Kind::part;
    fit.role = role;
  } else if (std::find(packed.begin(), packed.end(), map_role) != packed.end()) {
    fit.kind = Fit::Kind::piece;
    fit.role = map_role;
  }
  return fit.kind == Fit::Kind::none ? Fit() : fit;
}

[[noreturn]] void refuse_fit(const std::string& fact, const std::string& hint) {
  fail(Exit::data, "E_ADAPTER_FIT", fact, hint);
}

std::string shape_text(int64_t in, int64_t out) { return cat(in, " inputs and ", out, " outputs"); }

class Matcher {
 public:
  Matcher(const std::vector<ModuleShape>& modules, const std::vector<NamedMap>& maps) : modules_(modules), maps_(maps) {
    for (const NamedMap& m : maps) {
      std::vector<Path> paths;
      for (const std::string& name : m.names) paths.push_back(module_components(name));
      paths_.push_back(std::move(paths));
    }
  }

  std::vector<Placement> run() {
    std::vector<std::string> unknown;
    for (size_t m = 0; m < modules_.size(); ++m) {
      if (!place(m)) unknown.push_back(cat("'", printable(modules_[m].name), "'"));
    }
    if (!unknown.empty()) refuse_unknown(std::move(unknown));
    require_disjoint();
    return std::move(placed_);
  }

 private:
  bool place(size_t m) {
    const Path path = module_components(modules_[m].name);
    Fit best;
    std::vector<std::pair<size_t, Fit>> fits;  // the maps that fit best
    for (size_t i = 0; i < maps_.size(); ++i) {
      Fit fit;
      for (const Path& name : paths_[i]) {
        if (const Fit f = compare(path, name, maps_[i]); f.better(fit)) fit = f;
      }
      if (fit.kind == Fit::Kind::none || best.better(fit)) continue;
      if (fit.better(best)) fits.clear();
      best = fit;
      fits.emplace_back(i, fit);
    }
    if (fits.empty()) return false;
    if (best.kind == Fit::Kind::piece) {
      place_pieces(m, fits, packed_roles(path.back()));
      return true;
    }
    if (fits.size() > 1) refuse_ambiguous(m, fits[0].first, fits[1].first);
    const NamedMap& map = maps_[fits[0].first];
    Placement p{m, fits[0].first, 0, 0, map.out, best.role};
    for (const LinearMap::Part& part : map.parts) {
      if (part.role != best.role) continue;
      p.first = part.first;
      p.size = part.size;
    }
    require_extents(m, map, p.size, p.part);
    placed_.push_back(p);
    return true;
  }

  void place_pieces(size_t m, const std::vector<std::pair<size_t, Fit>>& fits, const std::vector<std::string>& roles) {
    int64_t from = 0;
    for (const std::string& role : roles) {
      std::optional<size_t> found;
      for (const auto& [map, fit] : fits) {
        if (fit.role != role) continue;
        if (found) refuse_ambiguous(m, *found, map);
        found = map;
      }
      if (!found)
        refuse_fit(cat("the adapter's module '", printable(modules_[m].name), "' holds ", join(roles, "|"),
                       ", the model has no map for ", role),
                   "the adapter belongs to another model");
      const int64_t size = maps_[*found].out;
      placed_.push_back({m, *found, from, 0, size, ""});
      from += size;
    }
    for (size_t i = placed_.size() - roles.size(); i < placed_.size(); ++i) {
      const NamedMap& map = maps_[placed_[i].map];
      if (map.in != modules_[m].in || from != modules_[m].out)
        refuse_fit(cat("the adapter's module '", printable(modules_[m].name), "' has ",
                       shape_text(modules_[m].in, modules_[m].out), ", ", join(roles, "|"), " of the model have ",
                       shape_text(map.in, from)),
                   "the adapter belongs to another model");
    }
  }

  void require_extents(size_t m, const NamedMap& map, int64_t out, const std::string& part) const {
    const ModuleShape& module = modules_[m];
    if (module.in == map.in && module.out == out) return;
    refuse_fit(cat("the adapter's module '", printable(module.name), "' has ", shape_text(module.in, module.out), ", '",
                   printable(map.names[0]), "'", part.empty() ? "" : cat(" (", part, ")"), " of the model has ",
                   shape_text(map.in, out)),
               "the adapter belongs to another model");
  }

  [[noreturn]] void refuse_ambiguous(size_t m, size_t a, size_t b) const {
    refuse_fit(cat("the adapter's module '", printable(modules_[m].name), "' fits '", printable(maps_[a].names[0]),
                   "' and '", printable(maps_[b].names[0]), "' of the model"),
               "rename the module in the adapter's file to the full name of its map");
  }

  [[noreturn]] void refuse_unknown(std::vector<std::string> unknown) const {
    const size_t count = unknown.size();
    constexpr size_t kShown = 4;
    if (count > kShown) unknown.resize(kShown);
    std::vector<std::string> names;
    for (const NamedMap& m : maps_) names.push_back(join(module_components(m.names[0]), "."));
    if (names.size() > kShown) names.resize(kShown);
    refuse_fit(cat("the model has no linear map for ", count, count == 1 ? " module" : " modules",
                   " of the adapter: ", join(unknown, ", "), count > kShown ? ", ..." : ""),
               cat("the adapter belongs to another model; this one has ", printable(join(names, ", ")), ", ..."));
  }

  // If two modules changed the same columns, both changes would be added. Such modules are refused.
  void require_disjoint() const {
    for (size_t i = 0; i < placed_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Placement &a = placed_[j], &b = placed_[i];
        if (a.map != b.map || a.first + a.size <= b.first || b.first + b.size <= a.first) continue;
        refuse_fit(
            cat("the adapter's modules '", printable(modules_[a.module].name), "' and '",
                printable(modules_[b.module].name), "' both fit '", printable(maps_[a.map].names[0]), "' of the model"),
            "the adapter belongs to another model");
      }
    }
  }

  const std::vector<ModuleShape>& modules_;
  const std::vector<NamedMap>& maps_;
  std::vector<std::vector<Path>> paths_;  // indexed by map: the paths of its names
  std::vector<Placement> placed_;
};

}  // namespace

std::vector<std::string> module_components(const std::string& name) {
  std::string text = name;
  std::replace(text.begin(), text.end(), '/', '.');
  Path path;
  for (std::string& c : split(text, '.')) {
    if (c == "self_attn" || c == "self_attention") c = "attn";
    // Phi calls its output projection "dense", which the model builder renames.
    if (c == "dense" && !path.empty() && path.back() == "attn") c = "o_proj";
    if (!c.empty()) path.push_back(std::move(c));
  }
  while (path.size() > 1 && is_tail(path.back())) path.pop_back();
  return path;
}

std::vector<Placement> place_modules(const std::vector<ModuleShape>& modules, const std::vector<NamedMap>& maps) {
  return Matcher(modules, maps).run();
}

}  // namespace amp
