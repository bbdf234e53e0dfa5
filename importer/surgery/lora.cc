// Chooses the maps that get adapters, plans one adapter per map or part, and describes the result for the user. The
// nodes are built in lora_nodes.cc.
#include "importer/surgery/lora.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/low_rank_pairs.h"
#include "importer/surgery/edit.h"
#include "importer/surgery/lora_nodes.h"

namespace amp {
namespace {

// A map, or one part of it, that can have an adapter.
struct Candidate {
  const LinearMap* map = nullptr;
  const LinearMap::Part* part = nullptr;  // null: the whole map
  std::string name;
  const std::string& role() const { return part ? part->role : map->role; }
};

std::vector<Candidate> candidates(const std::vector<LinearMap>& maps, bool fused) {
  std::vector<Candidate> out;
  for (const LinearMap& m : maps) {
    if (fused || m.parts.empty()) out.push_back({&m, nullptr, m.name});
    for (const LinearMap::Part& p : m.parts) {
      if (!fused) out.push_back({&m, &p, part_name(m.name, p.role)});
    }
  }
  return out;
}

bool is_new(const SourceGraph& g, int v) {
  const std::string& why = g.value(v).reason;
  return why == "new head" || why == "new classifier";
}

// True for maps that are adapted without being named: products whose weight is quantized or can be merged.
bool is_usual(const LinearMap& m) { return m.is_product() && (m.kind != MapKind::product || m.mergeable); }

// True if `word` is a component of the name, as "q_proj" of "layers.0.attn.q_proj.weight".
bool has_component(std::string name, const std::string& word) {
  std::replace(name.begin(), name.end(), '/', '.');
  const std::vector<std::string> parts = split(name, '.');
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

bool names_candidate(const SourceGraph& g, const std::string& target, const Candidate& c) {
  if (is_role(target)) return role_in(c.role(), target);
  std::vector<std::string> names = {c.name, c.map->name, g.value(c.map->weight).name, g.shown(c.map->weight)};
  for (const LinearMap::Use& u : c.map->uses) names.push_back(g.nodes[static_cast<size_t>(u.node)].name);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return glob_match(target, name) || has_component(name, target); });
}

// True if the target is a name of the candidate's weight or of one of its nodes, without a wildcard.
bool is_name_of(const SourceGraph& g, const std::string& target, const Candidate& c) {
  if (one_of(target, {c.name, c.map->name, g.value(c.map->weight).name, g.shown(c.map->weight)})) return true;
  return std::any_of(c.map->uses.begin(), c.map->uses.end(),
                     [&](const LinearMap::Use& u) { return g.nodes[static_cast<size_t>(u.node)].name == target; });
}

// Removes matrices that are halves of adapters in the file, unless a target names such a matrix. Logs how many were
// removed.
std::vector<Candidate> without_adapters(const SourceGraph& g, const LoraOptions& o, std::vector<Candidate> all,
                                        std::vector<std::string>& lines) {
  const LowRankPairs pairs = find_low_rank_pairs(g);
  const size_t before = all.size();
  std::erase_if(all, [&](const Candidate& c) {
    return pairs.factor[static_cast<size_t>(c.map->weight)] &&
           std::none_of(o.targets.begin(), o.targets.end(), [&](const auto& t) { return is_name_of(g, t, c); });
  });
  if (const size_t n = before - all.size(); n > 0)
    lines.push_back(cat("lora: no adapter on ", n, n == 1 ? " map that is" : " maps that are",
                        " part of adapters in the file (x A B beside x W); targets=NAME adds one"));
  return all;
}

// Returns the maps that a target selects: all maps with this role, or else the maps with a matching name. If any of the
// latter are usual (is_usual), returns only these.
std::vector<const Candidate*> selected_by(const SourceGraph& g, const std::string& target,
                                          const std::vector<Candidate>& all) {
  std::vector<const Candidate*> out;
  for (const Candidate& c : all) {
    if (names_candidate(g, target, c)) out.push_back(&c);
  }
  const auto usual = [](const Candidate* c) { return is_usual(*c->map); };
  if ((!is_role(target) || role_in("other", target)) && std::any_of(out.begin(), out.end(), usual))
    std::erase_if(out, [&](const Candidate* c) { return !usual(c); });
  return out;
}

[[noreturn]] void no_target(const std::vector<Candidate>& all, const std::string& target) {
  std::vector<std::string> names;
  for (const Candidate& c : all) {
    if (target.empty() ? is_usual(*c.map) : true) names.push_back(c.name);
  }
  const std::string near = nearest(target, names);
  if (names.size() > 6) names.resize(6);
  fail(Exit::usage, "E_LORA",
       target.empty() ? "`lora`: no linear map of the model has a weight that only it uses"
                      : cat("`lora`: targets=", printable(target), " matches no linear map"),
       names.empty()   ? "leave `lora` out, or name a convolution or a table in targets"
       : !near.empty() ? cat("did you mean '", printable(near), "'?")
                       : cat("there are ", printable(join(names, ", ")), ", ..."));
}

// True for a language model's output over its vocabulary: as many outputs as the largest table has rows.
bool is_vocabulary_head(const LinearMap& m, const std::vector<LinearMap>& maps) {
  int64_t rows = 0;
  for (const LinearMap& t : maps) {
    if (t.kind == MapKind::table) rows = std::max(rows, t.in);
  }
  return m.role == "head" && m.out == rows;
}

std::vector<const Candidate*> named(const std::string& name, const std::vector<Candidate>& all) {
  std::vector<const Candidate*> out;
  for (const Candidate& c : all) {
    if (c.name == name) out.push_back(&c);
  }
  return out;
}

std::vector<const Candidate*> choose(const SourceGraph& g, const LoraOptions& o, const std::vector<LinearMap>& maps,
                                     const std::vector<Candidate>& all, std::vector<std::string>& lines) {
  std::set<const Candidate*> chosen;
  for (const std::string& target : o.targets) {
    const std::vector<const Candidate*> some = o.exact_targets ? named(target, all) : selected_by(g, target, all);
    if (some.empty()) no_target(all, target);
    chosen.insert(some.begin(), some.end());
  }
  std::vector<const Candidate*> out;
  for (const Candidate& c : all) {
    if (is_new(g, c.map->weight)) continue;
    bool take = o.targets.empty() ? is_usual(*c.map) : chosen.count(&c) > 0;
    if (take && o.targets.empty() && is_vocabulary_head(*c.map, maps)) {
      take = false;
      lines.push_back(
          cat("lora: no adapter on the head over the vocabulary, ", printable(c.name), "; targets=head adds one"));
    }
    if (take) out.push_back(&c);
  }
  if (out.empty()) no_target(all, "");
  return out;
}

AdapterPlan plan_of(const SourceGraph& g, const LoraOptions& o, const Candidate& c) {
  AdapterPlan p;
  p.name = c.name;
  p.part = c.part ? c.part->role : "";
  p.first = c.part ? c.part->first : 0;
  p.out = c.part ? c.part->size : c.map->out;
  const auto value = [&](const auto& patterns, auto fallback) {
    for (const auto& [glob, x] : patterns) {
      if (names_candidate(g, glob, c)) return x;
    }
    return fallback;
  };
  p.rank = value(o.ranks, o.r);
  p.alpha = value(o.alphas, o.alpha);
  return p;
}

// Fails if no adapter matches a pattern of rank or alpha. Such a pattern is a typing error, or names a map that targets
// leave out.
template <class T>
void require_used(const SourceGraph& g, const char* key, const std::vector<std::pair<std::string, T>>& patterns,
                  const std::vector<const Candidate*>& chosen) {
  for (const auto& pattern : patterns) {
    const std::string& glob = pattern.first;
    if (std::none_of(chosen.begin(), chosen.end(), [&](const Candidate* c) { return names_candidate(g, glob, *c); })) {
      fail(Exit::usage, "E_LORA", cat("`lora`: ", key, "=", printable(glob), " matches no map that has an adapter"),
           "name a role, or a weight that targets select");
    }
  }
}

void freeze_rest(SourceGraph& g, const LoraOptions& o) {
  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || !v.trainable || is_new(g, static_cast<int>(i))) continue;
    if (std::any_of(o.trainable.begin(), o.trainable.end(), [&](const std::string& glob) {
          return glob_match(glob, v.name) || (!v.alias.empty() && glob_match(glob, v.alias));
        }))
      continue;
    v.trainable = false;
    v.reason = cat("frozen by `lora` (", v.reason, ")");
  }
}

// Returns the number of elements of all weights before adapters were added.
int64_t model_size(const SourceGraph& g, const std::vector<LinearMap>& maps) {
  int64_t n = 0;
  for (const SourceValue& v : g.values) {
    if (v.kind == SourceKind::parameter && v.tied_to < 0) n += v.data.numel();
  }
  std::set<int> counted;
  for (const LinearMap& m : maps) {
    if (g.value(m.weight).kind != SourceKind::parameter && counted.insert(m.weight).second) n += m.in * m.out;
  }
  return n;
}

const char* form_of(MapKind kind) {
  switch (kind) {
    case MapKind::product:
      return "floating-point weight";
    case MapKind::packed:
      return "packed weight";
    case MapKind::dequantized:
      return "quantized weight";
    case MapKind::convolution:
      return "convolution";
    case MapKind::table:
      return "table";
  }
  return "";
}

// Returns the number of adapters per role, such as "attention (q 2, k 2), mlp (down 2)".
std::string roles_text(const std::vector<LoraAdapter>& adapters) {
  std::map<std::string, int> counts;
  for (const LoraAdapter& a : adapters) ++counts[a.part.empty() ? a.role : a.part];
  std::vector<std::string> out;
  for (const char* group : {"attention", "mlp", ""}) {
    std::vector<std::string> some;
    for (const char* role :
         {"q", "k", "v", "qkv", "o", "gate", "up", "gate_up", "down", "head", "embedding", "conv", "other"}) {
      const bool mine = *group ? role_in(role, group) : !role_in(role, "attention") && !role_in(role, "mlp");
      if (mine && counts.count(role)) some.push_back(cat(role, " ", counts.at(role)));
    }
    if (!some.empty()) out.push_back(*group ? cat(group, " (", join(some, ", "), ")") : join(some, ", "));
  }
  return join(out, ", ");
}

std::string settings_text(const LoraOptions& o) {
  static const std::map<LoraInit, const char*> inits = {
      {LoraInit::gaussian, " init=gaussian"}, {LoraInit::zero, " init=zero"}, {LoraInit::pissa, " init=pissa"}};
  std::string text = cat("r=", o.r, " alpha=", o.alpha, o.dropout > 0 ? cat(" dropout=", o.dropout) : "");
  if (o.rslora) text += " rslora";
  if (o.dora) text += " dora";
  if (o.lr_ratio != 1) text += cat(" lr_ratio=", o.lr_ratio, " (learning rate of B)");
  if (const auto it = inits.find(o.init); it != inits.end()) text += it->second;
  for (const auto& [glob, r] : o.ranks) text += cat(" ", printable(glob), ":r=", r);
  for (const auto& [glob, x] : o.alphas) text += cat(" ", printable(glob), ":alpha=", x);
  return text;
}

// Logs decisions that the user did not request: the maps that are adapted by parts, the maps whose roles were guessed
// from their names, and the adapters that stay nodes.
void tell_decisions(const LoraOptions& o, const std::vector<const Candidate*>& chosen, LoraResult& out) {
  std::set<const LinearMap*> divided, guessed;
  for (const Candidate* c : chosen) {
    if (!c->map->parts.empty()) divided.insert(c->map);
    if (c->map->by_name) guessed.insert(c->map);
  }
  if (!divided.empty()) {
    std::vector<std::string> roles;
    for (const LinearMap::Part& p : (*divided.begin())->parts) roles.push_back(p.role);
    out.lines.push_back(
        cat("lora: ", divided.size(), divided.size() == 1 ? " map holds " : " maps hold ",
            divided.size() == 1 ? join(roles, "|") : "several weights side by side, such as " + join(roles, "|"),
            o.fused ? ": one adapter for all parts (fused=false: one each)"
                    : ": one adapter for each part (fused=true: one for all)"));
  }
  if (!guessed.empty())
    out.lines.push_back(cat("lora: the roles of ", guessed.size(), " maps are guesses from their names"));
  const auto nodes = std::count_if(out.adapters.begin(), out.adapters.end(), [](const auto& a) { return !a.merged; });
  if (!o.keep && !o.separate && nodes > 0)
    out.lines.push_back(cat("lora: ", nodes, " of ", out.adapters.size(), " adapters cannot be merged into their ",
                            "weights (quantized, or read by other nodes); the export keeps them as nodes"));
  if (o.init == LoraInit::pissa)
    out.lines.push_back(o.keep ? "lora: init=pissa: the exported weights are the rest that A and B do not hold"
                               : "lora: init=pissa: the export adds A and B to the rest of each weight");
}

}  // namespace

std::string part_name(const std::string& map, const std::string& role) {
  for (const std::string_view packed : {std::string_view("qkv_proj"), std::string_view("gate_up_proj")}) {
    if (const size_t at = map.find(packed); at != std::string::npos)
      return map.substr(0, at) + role + "_proj" + map.substr(at + packed.size());
  }
  return map + "." + role;
}

LoraResult add_lora(SourceGraph& g, const LoraOptions& o) {
  const std::vector<LinearMap> maps = find_linear_maps(g);
  LoraResult out;
  const std::vector<Candidate> all = without_adapters(g, o, candidates(maps, o.fused), out.lines);
  const std::vector<const Candidate*> chosen = choose(g, o, maps, all, out.lines);
  require_used(g, "rank_pattern", o.ranks, chosen);
  require_used(g, "alpha_pattern", o.alphas, chosen);
  const int64_t size = model_size(g, maps);
  freeze_rest(g, o);

  int64_t elements = 0;
  for (size_t i = 0; i < chosen.size();) {  // candidates of a map are consecutive
    const LinearMap& m = *chosen[i]->map;
    std::vector<AdapterPlan> plans;
    for (; i < chosen.size() && chosen[i]->map == &m; ++i) plans.push_back(plan_of(g, o, *chosen[i]));
    for (LoraAdapter& a : adapt_map(g, m, plans, o, g.value(m.weight).trainable)) {
      for (const int v : {a.a, a.b, a.magnitude}) elements += v < 0 ? 0 : g.value(v).data.numel();
      out.details.push_back(cat("lora: ", printable(a.name), " [", a.in, ", ", a.out, "], ", form_of(a.kind), ", role ",
                                a.part.empty() ? a.role : a.part, m.by_name ? " (by name)" : "", ", r ", a.rank,
                                ", scale ", a.scale, a.merged ? "" : ", kept as nodes"));
      out.adapters.push_back(std::move(a));
    }
  }
  sort_nodes(g);
  char share[32];
  std::snprintf(share, sizeof share, "%.3g", 100.0 * static_cast<double>(elements) / static_cast<double>(size));
  const auto count = out.adapters.size();
  out.lines.insert(out.lines.begin(), cat("lora ", settings_text(o), " on ", count, count == 1 ? " map: " : " maps: ",
                                          roles_text(out.adapters), "; ", with_thousands(elements), " new values, ",
                                          share, " % of the model's ", with_thousands(size)));
  tell_decisions(o, chosen, out);
  return out;
}

}  // namespace amp
