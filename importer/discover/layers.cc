// Parses numbered layers from names with regular expressions. freeze_layers() freezes the first layers of each stack,
// and the parameters outside of the layers on which these layers depend.
#include "importer/discover/layers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

using Stacks = std::map<std::string, std::set<int64_t>>;

void keep_encoder(Stacks& stacks) {
  const auto has = [](const std::string& s, const char* part) { return s.find(part) != std::string::npos; };
  const bool encoder =
      std::any_of(stacks.begin(), stacks.end(), [&](const auto& s) { return has(s.first, "encoder"); });
  if (!encoder) return;
  std::erase_if(stacks, [&](const auto& s) { return has(s.first, "decoder"); });
}

[[noreturn]] void nothing_found(const SourceGraph& g, int64_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < g.values.size() && names.size() < 6; ++i) {
    if (g.values[i].kind == SourceKind::parameter) names.push_back(printable(g.shown(static_cast<int>(i))));
  }
  fail(
      Exit::usage, "E_FREEZE_LAYERS",
      cat("`freeze_layers` ", count, ": no parameter is named after a numbered layer (encoder.layer.0, layers.0, h.0, ",
          "blocks.0, ...); the model has ", join(names, ", "), names.size() == 6 ? ", ..." : ""),
      "freeze by name: `freeze` GLOB");
}

using Layer = std::pair<std::string, int64_t>;  // name of the stack, number of the layer

struct FirstLayers {
  std::set<Layer> frozen, first;  // layers to freeze; the first layer of each stack
};

FirstLayers first_layers(const Stacks& stacks, int64_t count, std::vector<std::string>& lines) {
  FirstLayers out;
  for (const auto& [stack, numbers] : stacks) {
    if (static_cast<int64_t>(numbers.size()) < count) {
      fail(Exit::usage, "E_FREEZE_LAYERS",
           cat("`freeze_layers` ", count, ": '", printable(stack), "' has ", numbers.size(), " layers (",
               *numbers.begin(), " to ", *numbers.rbegin(), ")"),
           cat("at most ", numbers.size()));
    }
    out.first.emplace(stack, *numbers.begin());
    auto it = numbers.begin();
    for (int64_t k = 0; k < count; ++k, ++it) out.frozen.emplace(stack, *it);
    if (count > 0)
      lines.push_back(
          cat("frozen: ", printable(stack), " ", *numbers.begin(), count > 1 ? cat(" to ", *std::prev(it)) : ""));
  }
  return out;
}

// Freezes the chosen parameters and the parameters tied to them, except those that match a glob in `trainable`. Appends
// a line for the user.
void freeze_parameters(SourceGraph& g, const std::set<int>& chosen, const std::vector<int>& parameters, int64_t count,
                       const std::vector<std::string>& trainable, std::vector<std::string>& lines) {
  const auto master = [&](int i) {
    return g.values[static_cast<size_t>(i)].tied_to < 0 ? i : g.values[static_cast<size_t>(i)].tied_to;
  };
  std::set<int> masters;
  for (const int p : chosen) masters.insert(master(p));
  for (const int p : parameters) {
    const SourceValue& v = g.values[static_cast<size_t>(p)];
    for (const std::string& glob : trainable) {
      if (glob_match(glob, v.name) || (!v.alias.empty() && glob_match(glob, v.alias))) masters.erase(master(p));
    }
  }
  int64_t tensors = 0, elements = 0;
  for (const int p : parameters) {
    SourceValue& v = g.values[static_cast<size_t>(p)];
    if (!masters.count(master(p)) || !v.trainable) continue;
    v.trainable = false;
    v.reason = cat("frozen by `freeze_layers` ", count, " (", v.reason, ")");
    tensors += v.tied_to < 0;
    elements += v.tied_to < 0 ? v.data.numel() : 0;
  }
  lines.push_back(
      cat("frozen: ", tensors, " tensors with ", with_thousands(elements), " values by `freeze_layers` ", count));
}

}  // namespace

static bool short_number(const std::string& s) {
  return !s.empty() && s.size() <= 6 && s.find_first_not_of("0123456789") == std::string::npos;
}

// Returns the components of a module path. Some exporters repeat the name of a module list before each member
// ("blocks/blocks.0"); the repetition is dropped.
static std::vector<std::string> components_of(const std::string& name) {
  std::vector<std::string> out;
  std::string part;
  for (const char c : name + ".") {
    if (c != '.' && c != '/') {
      part += c;
      continue;
    }
    const bool list = !out.empty() && out.back() == part && !short_number(part);
    if (!part.empty() && !list) out.push_back(part);
    part.clear();
  }
  return out;
}

// A layer number, as a separate component ("layer.3") or inside one ("layer3", "encoder_layer_3_fc").
struct Numbered {
  std::string word;  // such as "encoder_layer"
  int64_t number = -1;
  size_t next = 0;  // index of the next component
};
static std::optional<Numbered> numbered_at(const std::vector<std::string>& parts, size_t i) {
  static const std::regex word(R"(h|[A-Za-z_]*(?:layers?|blocks?|stages?|groups?|features))");
  static const std::regex joined(
      R"((h(?=_)|[A-Za-z_]*?(?:layers?|blocks?|stages?|groups?|features))_?(\d{1,6})(?:_.*)?)");
  std::smatch m;
  if (i >= parts.size()) return {};
  if (i + 1 < parts.size() && short_number(parts[i + 1]) && std::regex_match(parts[i], word))
    return Numbered{parts[i], std::stoll(parts[i + 1]), i + 2};
  if (std::regex_match(parts[i], m, joined)) return Numbered{m[1], std::stoll(m[2]), i + 1};
  return {};
}

// Returns the number of the block within a stage, as in "stages.2.1", "stages.2.blocks.1" and "layers.0.blocks.1"; -1
// if there is none. In "block.0.layer.1", the second number is not a block but a sublayer of one.
static int64_t block_in(const std::string& stage, const std::vector<std::string>& parts, size_t next) {
  if (next < parts.size() && short_number(parts[next])) return std::stoll(parts[next]);
  const auto ends = [](const std::string& s, std::string_view end) { return s.ends_with(end); };
  const auto inner = numbered_at(parts, next);
  if (!inner || ends(stage, "block") || ends(stage, "blocks")) return -1;
  const bool block = ends(inner->word, "block") || ends(inner->word, "blocks");
  const bool layer = ends(inner->word, "layer") || ends(inner->word, "layers");
  return block || (layer && !ends(stage, "layer") && !ends(stage, "layers")) ? inner->number : -1;
}

LayerName layer_of(const std::string& name) {
  const std::vector<std::string> parts = components_of(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto found = numbered_at(parts, i);
    if (!found) continue;
    std::string stack = join(std::span(parts).first(i), ".");
    if (!stack.empty()) stack += '.';
    return {stack + found->word, found->number, block_in(found->word, parts, found->next)};
  }
  return {};
}

LayerName layer_of_parameter(const SourceGraph& g, int value, const std::vector<Use>& uses,
                             const std::vector<std::string>& scopes) {
  const SourceValue& v = g.values[static_cast<size_t>(value)];
  std::vector<std::string> names = {v.name, v.alias};
  for (const Use& u : uses) {
    names.push_back(scopes[static_cast<size_t>(u.node)]);
    names.push_back(g.nodes[static_cast<size_t>(u.node)].name);
  }
  for (const std::string& name : names) {
    if (LayerName l = layer_of(name); !l.stack.empty()) return l;
  }
  return {};
}

std::vector<std::string> freeze_layers(SourceGraph& g, int64_t count, const std::vector<std::string>& trainable,
                                       const std::vector<std::string>& scopes) {
  const auto consumers = g.consumers();
  const std::vector<char> live = live_nodes(g);
  std::map<int, LayerName> layers;  // index of the parameter -> its layer
  std::map<int, std::vector<Use>> all_uses;
  Stacks stacks;
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (g.values[i].kind != SourceKind::parameter) continue;
    const int p = static_cast<int>(i);
    all_uses[p] = uses_through_views(g, consumers, live, p);
    const LayerName l = layer_of_parameter(g, p, all_uses[p], scopes);
    if (l.stack.empty()) continue;
    layers[p] = l;
    stacks[l.stack].insert(l.number);
  }
  if (stacks.empty()) nothing_found(g, count);
  keep_encoder(stacks);

  std::vector<std::string> lines;
  const FirstLayers layers_at = first_layers(stacks, count, lines);
  std::set<int> chosen;
  std::vector<int> reached;  // outputs of the frozen layers; if count is 0, outputs of the first layers
  for (const auto& [p, l] : layers) {
    const bool frozen = layers_at.frozen.count({l.stack, l.number}) != 0;
    if (frozen) chosen.insert(p);
    if (!frozen && !(count == 0 && layers_at.first.count({l.stack, l.number}))) continue;
    for (const Use& u : all_uses[p]) {
      for (const int o : g.nodes[static_cast<size_t>(u.node)].outputs) {
        if (o >= 0) reached.push_back(o);
      }
    }
  }
  const std::vector<char> below = upstream_of(g, reached);
  std::vector<std::string> outside;
  for (const auto& [p, uses] : all_uses) {
    if (layers.count(p) || !below[static_cast<size_t>(p)]) continue;
    chosen.insert(p);
    outside.push_back(printable(g.shown(p)));
  }
  if (!outside.empty()) lines.push_back(cat("frozen, because it precedes these layers: ", join(outside, ", ")));

  std::vector<int> parameters;
  for (const auto& [p, uses] : all_uses) parameters.push_back(p);
  freeze_parameters(g, chosen, parameters, count, trainable, lines);
  return lines;
}

}  // namespace amp
