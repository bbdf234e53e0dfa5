// Parameter groups: parses `param_group`, assigns learning rate factors to layers (`layer_decay`, as in ELECTRA and
// BEiT) and unfreezing steps, and writes them into the chunks of a FlatLayout. The groups of `param_group` ("rows"
// here) are applied in order, so a later row overrides an earlier one. Of tied parameters only the master, which the
// others are tied to, has a chunk.
#include "run/prepare/param_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/update.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "importer/discover/select.h"
#include "run/settings/values.h"
#include "run/spec/optimization.h"

namespace amp {

namespace {

constexpr std::string_view kNumbers[] = {"lr", "lr_scale", "weight_decay", "max_grad_norm", "unfreeze_step"};
constexpr std::string_view kTruths[] = {"freeze", "adamw"};

[[noreturn]] void refuse(const ParamGroup& row, const char* id, const std::string& fact, const std::string& hint) {
  fail(Exit::usage, id, cat("`param_group` '", printable(row.glob), "': ", fact), hint);
}

double number(const ParamGroup& row, const std::string& key, const std::string& text) {
  const std::optional<double> x = parse_number(text);
  if (!x) refuse(row, "E_FLAG_VALUE", cat(key, " is '", printable(text), "'"), "give a number >= 0");
  if (!(*x >= 0 && std::isfinite(*x))) refuse(row, "E_FLAG_RANGE", cat(key, " is ", *x), "give a number >= 0");
  return *x;
}

bool truth(const ParamGroup& row, const std::string& key, const std::string& text) {
  const std::optional<bool> x = parse_bool(text);
  if (!x) refuse(row, "E_FLAG_VALUE", cat(key, " is '", printable(text), "'"), "give true or false");
  return *x;
}

int64_t steps(const ParamGroup& row, const std::string& key, const std::string& text) {
  const double x = number(row, key, text);
  if (x != std::floor(x) || x > 1e15) refuse(row, "E_FLAG_RANGE", cat(key, " is ", x), "give a whole number of steps");
  return static_cast<int64_t>(x);
}

void put(ParamGroup& row, const std::string& key, const std::string& text) {
  if (key == "lr") {
    row.lr = number(row, key, text);
  } else if (key == "lr_scale") {
    row.lr_scale = number(row, key, text);
  } else if (key == "weight_decay") {
    row.weight_decay = number(row, key, text);
  } else if (key == "max_grad_norm") {
    row.max_grad_norm = number(row, key, text);
  } else if (key == "unfreeze_step") {
    row.unfreeze_step = steps(row, key, text);
  } else if (key == "freeze") {
    row.freeze = truth(row, key, text);
  } else if (key == "adamw") {
    row.adamw = truth(row, key, text);
  } else {
    std::vector<std::string> known(std::begin(kNumbers), std::end(kNumbers));
    known.insert(known.end(), std::begin(kTruths), std::end(kTruths));
    const std::string near = nearest(key, known);
    refuse(row, "E_FLAG_VALUE", cat("there is no '", printable(key), "'"),
           cat(near.empty() ? "" : "did you mean '" + near + "'? ", "a group has: ", join(known, ", ")));
  }
}

ParamGroup parse_group(const std::string& text) {
  constexpr const char* kForm = "write 'GLOB: lr=1e-5, weight_decay=0' or {\"params\": \"GLOB\", \"lr\": 1e-5}";
  ParamGroup row;
  std::map<std::string, std::string> given;
  if (text.starts_with('{')) {
    given = parse_arguments("param_group", text);
    if (const auto it = given.find("params"); it != given.end()) row.glob = given.extract(it).mapped();
  } else if (const size_t colon = text.rfind(':'); colon != std::string::npos) {
    row.glob = text.substr(0, colon);
    row.glob.erase(0, row.glob.find_first_not_of(' '));
    row.glob.erase(row.glob.find_last_not_of(' ') + 1);
    given = parse_arguments("param_group", text.substr(colon + 1));
  }
  if (row.glob.empty() || given.empty())
    fail(Exit::usage, "E_FLAG_VALUE", cat("`param_group`: '", printable(text), "' is not understood"), kForm);
  for (const auto& [key, value] : given) put(row, key, value);
  if (row.lr && row.lr_scale)
    refuse(row, "E_FLAG_VALUE", "lr and lr_scale say the same thing twice", "give one of them");
  return row;
}

using Values = std::vector<SourceValue>;

size_t master(const Values& values, size_t i) {
  return values[i].tied_to < 0 ? i : static_cast<size_t>(values[i].tied_to);
}

// Returns a parameter's distance from the head, in layers. A LoRA adapter has the depth of the weight that it adapts. A
// row that stands for a repeated parameter (tie_rows()) has the depth of that parameter. All other parameters that
// surgery added belong to the head (depth 0).
int depth_of(const LayerDepths& layers, const SourceValue& v) {
  for (const char* const suffix : {"", ".lora_A", ".lora_B", ".lora_magnitude", ".row"}) {
    const std::string end = suffix;
    if (!v.name.ends_with(end)) continue;
    const auto it = layers.depth.find(v.name.substr(0, v.name.size() - end.size()));
    if (it != layers.depth.end()) return it->second;
  }
  // layers.depth lacks the adapted weight if it is quantized (then it is not a parameter) or is a part of a packed
  // weight.
  for (const LayerDepths::Layer& l : layers.layers) {
    if (v.reason == "LoRA" && v.name.starts_with(l.name + ".")) return l.depth;
  }
  return 0;
}

// Sets depth, learning rate factor and unfreezing step of each parameter. The layers nearest to the outputs that have
// parameters get depth 0 and factor 1.
void scale_layers(ParamGroups& groups, const Values& values) {
  int least = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].kind != SourceKind::parameter || values[i].tied_to >= 0) continue;
    const int depth = depth_of(groups.layers, values[i]);
    least = least < 0 ? depth : std::min(least, depth);
    groups.own[values[i].name].depth = depth;
  }
  for (LayerDepths::Layer& l : groups.layers.layers) l.depth -= least;
  for (auto& [name, own] : groups.own) {
    own.depth -= least;
    own.unfreeze_step = own.depth * groups.unfreezing;
    own.lr_factor = std::pow(groups.layer_decay, own.depth);
  }
}

[[noreturn]] void no_layers(const OptimizationSpec& optimization, const SourceGraph& g) {
  std::vector<std::string> names;
  for (size_t i = 0; i < g.values.size() && names.size() < 6; ++i) {
    if (g.values[i].kind == SourceKind::parameter) names.push_back(printable(g.shown(static_cast<int>(i))));
  }
  fail(Exit::usage, "E_LAYER_DECAY",
       cat(optimization.layer_decay != 1 ? "`layer_decay` " + number_text(optimization.layer_decay)
                                         : cat("`gradual_unfreezing` ", optimization.gradual_unfreezing),
           ": no parameter is named after a numbered layer (encoder.layer.0, layers.0, h.0, blocks.0, ...); the model "
           "has ",
           join(names, ", "), names.size() == 6 ? ", ..." : ""),
       "give them by name: `param_group` 'GLOB: lr_scale=0.5', or unfreeze_step=100");
}

void refuse_rule_of_all_steps(const OptimizationSpec& optimization, const std::string& flag) {
  OptimizerConfig c;
  c.rule = update_rule_from_name(optimization.optimizer);
  c.settings = rule_settings(c.rule, {});
  if (c.needs_hessian_diagonal() || c.keeps_step_scalars())
    fail(Exit::usage, "E_FLAG_VALUE", cat(flag, ": a step of `optimizer` ", c.rule, " depends on all before it"),
         "freeze parameters for good (`freeze`), or another `optimizer`");
}

// Fails for keys of a `param_group` row that the optimizer does not support.
void check_rule(const ParamGroup& row, const OptimizationSpec& optimization) {
  if (row.unfreeze_step.value_or(0) > 0)
    refuse_rule_of_all_steps(optimization, cat("`param_group` '", printable(row.glob), "': unfreeze_step"));
  if (row.adamw && optimization.optimizer != "muon")
    refuse(row, "E_FLAG_VALUE", cat("adamw: `optimizer` ", optimization.optimizer, " moves all parameters in one way"),
           "`optimizer` muon, or leave it out");
}

void apply_row(ParamGroups& groups, const ParamGroup& row, const OptimizationSpec& optimization, Values& values,
               const std::set<size_t>& masters, std::map<size_t, std::string>& frozen) {
  if (row.lr && *optimization.lr == 0)
    refuse(row, "E_FLAG_VALUE", cat("lr=", number_text(*row.lr), " follows the schedule, and `lr` is 0"),
           "give `lr` the peak of the schedule");
  check_rule(row, optimization);
  for (const size_t i : masters) {
    ParamGroups::Own& own = groups.own[values[i].name];
    if (row.lr) own.lr_factor = *row.lr / *optimization.lr;
    if (row.lr_scale) own.lr_factor = *row.lr_scale;
    if (row.weight_decay) own.weight_decay = row.weight_decay;
    if (row.max_grad_norm) {
      own.clip_group = static_cast<int>(groups.members.size()) + 1;
      own.max_grad_norm = *row.max_grad_norm;
    }
    if (row.unfreeze_step) own.unfreeze_step = *row.unfreeze_step;
    if (row.adamw) own.adamw = *row.adamw;
    if (row.freeze.value_or(false)) frozen[i] = row.glob;
    if (!row.freeze.value_or(true)) frozen.erase(i);
  }
}

struct Count {
  // numbers of trainable tensors, of elements of these tensors, and of frozen tensors
  int64_t tensors = 0, parameters = 0, frozen = 0;
  void add(const Chunk& c) {
    (c.frozen ? frozen : tensors) += 1;
    if (!c.frozen) parameters += c.numel;
  }
  std::string text() const {
    return cat(tensors, tensors == 1 ? " tensor, " : " tensors, ", with_thousands(parameters), " parameters",
               frozen ? cat(" (and ", frozen, " frozen)") : std::string());
  }
};

Count count_members(const std::set<std::string>& names, const FlatLayout& layout) {
  Count n;
  for (const Chunk& c : layout.chunks()) {
    if (names.count(c.name)) n.add(c);
  }
  return n;
}

std::string text_of(const ParamGroup& row) {
  std::vector<std::string> parts;
  if (row.lr) parts.push_back("lr " + number_text(*row.lr));
  if (row.lr_scale) parts.push_back("lr x " + number_text(*row.lr_scale));
  if (row.weight_decay) parts.push_back("weight decay " + number_text(*row.weight_decay));
  if (row.freeze) parts.push_back(*row.freeze ? "frozen" : "not frozen");
  if (row.max_grad_norm) parts.push_back("clipped to " + number_text(*row.max_grad_norm));
  if (row.unfreeze_step) parts.push_back(cat("frozen for ", *row.unfreeze_step, " steps"));
  if (row.adamw) parts.push_back(*row.adamw ? "by AdamW" : "not by AdamW");
  return join(parts, ", ");
}

// A line of the layer table that is logged. Lines are ordered by distance from the head. Layers without parameters have
// no line.
struct LayerRow {
  std::string name;
  double scale = 1;
  Count count;
};
std::map<int, LayerRow> layer_rows(const ParamGroups& groups, const FlatLayout& layout) {
  std::map<int, LayerRow> rows;
  for (const Chunk& c : layout.chunks()) {
    const auto it = groups.own.find(c.name);
    if (it != groups.own.end()) rows[it->second.depth].count.add(c);
  }
  int last = 0;
  for (const LayerDepths::Layer& l : groups.layers.layers) {
    std::string& name = rows[l.depth].name;
    name += (name.empty() ? "" : ", ") + l.name;
    last = std::max(last, l.depth);
  }
  for (auto& [depth, row] : rows) {
    row.scale = std::pow(groups.layer_decay, depth);
    if (row.name.empty()) row.name = depth == 0 ? "head" : "embeddings";
  }
  return rows;
}

void note_layers(const ParamGroups& groups, const FlatLayout& layout, const Log& log) {
  const std::map<int, LayerRow> rows = layer_rows(groups, layout);
  const auto& layers = groups.layers.layers;
  const auto place = [](const LayerRow& r) {
    char scale[32];
    std::snprintf(scale, sizeof scale, "%.4g", r.scale);
    return cat(r.name, " x ", scale);
  };
  log.info(cat("layer decay ", number_text(groups.layer_decay), ": ", layers.size(), " layers, from ",
               place(rows.rbegin()->second), " up to ", place(rows.begin()->second), "; `verbose` lists them"));
  for (const auto& [depth, row] : rows) log.detail(cat("layer decay: ", place(row), ": ", row.count.text()));
}

}  // namespace

std::vector<ParamGroup> requested_groups(const OptimizationSpec& optimization) {
  std::vector<ParamGroup> rows;
  for (const std::string& text : optimization.param_group) rows.push_back(parse_group(text));
  return rows;
}

ParamGroups group_parameters(const OptimizationSpec& optimization, const LayerDepths& layers, SourceGraph& g,
                             const std::map<std::string, double>& lr_factors) {
  ParamGroups groups;
  groups.rows = requested_groups(optimization);
  groups.layer_decay = optimization.layer_decay;
  groups.layers = layers;
  groups.unfreezing = optimization.gradual_unfreezing;
  const bool by_layer = optimization.layer_decay != 1 || optimization.gradual_unfreezing > 0;
  if (by_layer && layers.layers.empty()) no_layers(optimization, g);
  if (by_layer) scale_layers(groups, g.values);
  if (optimization.gradual_unfreezing > 0) refuse_rule_of_all_steps(optimization, "`gradual_unfreezing`");
  for (const auto& [name, factor] : lr_factors) {
    if (factor != 1) groups.own[name].lr_factor *= factor;
  }
  std::map<size_t, std::string> frozen;  // master -> glob of the row that froze it
  for (const ParamGroup& row : groups.rows) {
    std::set<size_t> masters;
    for (size_t i = 0; i < g.values.size(); ++i) {
      if (g.values[i].kind == SourceKind::parameter && names_value(row.glob, g.values[i]))
        masters.insert(master(g.values, i));
    }
    if (masters.empty()) fail_unmatched(g, "`param_group`", row.glob);
    apply_row(groups, row, optimization, g.values, masters, frozen);
    std::set<std::string>& names = groups.members.emplace_back();
    for (const size_t i : masters) names.insert(g.values[i].name);
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    const auto it = frozen.find(master(g.values, i));
    if (v.kind != SourceKind::parameter || it == frozen.end()) continue;
    v.trainable = false;
    v.reason = cat("frozen by `param_group` '", it->second, "' (", v.reason, ")");
  }
  return groups;
}

void apply_groups(const ParamGroups& groups, FlatLayout& layout) {
  for (Chunk& c : layout.chunks()) {
    const auto it = groups.own.find(c.name);
    if (it == groups.own.end()) continue;
    c.lr_factor = it->second.lr_factor;
    if (it->second.weight_decay) c.weight_decay = it->second.weight_decay;
    c.clip_group = it->second.clip_group;
    c.max_grad_norm = it->second.max_grad_norm;
    c.from_step = it->second.unfreeze_step;
    c.elementwise = it->second.adamw;
  }
}

void log_groups(const ParamGroups& groups, const OptimizationSpec& optimization, const FlatLayout& layout,
                const Log& log) {
  if (groups.layer_decay != 1) note_layers(groups, layout, log);
  if (groups.unfreezing > 0) {
    int64_t last = 0;
    for (const auto& [name, own] : groups.own) last = std::max(last, own.unfreeze_step);
    log.info(cat("gradual unfreezing: a layer every ", groups.unfreezing, " steps, all from step ", last));
  }
  for (size_t i = 0; i < groups.rows.size(); ++i) {
    const ParamGroup& row = groups.rows[i];
    const Count n = count_members(groups.members[i], layout);
    const std::string line = cat("group '", printable(row.glob), "': ", n.text(), ": ", text_of(row));
    n.tensors == 0 && !row.freeze ? log.warning(line + "; none of them trains") : log.info(line);
  }
  if (groups.own.empty()) return;
  for (const Chunk& c : layout.chunks()) {
    if (c.frozen || !groups.own.count(c.name)) continue;
    log.detail(cat("group: ", printable(c.name), ": lr ", number_text(*optimization.lr * c.lr_factor),
                   ", weight decay ", number_text(c.weight_decay.value_or(optimization.weight_decay))));
  }
}

std::string groups_json(const ParamGroups& groups, const FlatLayout& layout) {
  using nlohmann::json;
  const auto counted = [](json j, const Count& n) {
    j["tensors"] = n.tensors;
    j["parameters"] = n.parameters;
    return j;
  };
  json out = json::object();
  for (size_t i = 0; i < groups.rows.size(); ++i) {
    const ParamGroup& row = groups.rows[i];
    json j = {{"params", row.glob}};
    for (const auto& [name, value] : {std::pair{"lr", row.lr},
                                      {"lr_scale", row.lr_scale},
                                      {"weight_decay", row.weight_decay},
                                      {"max_grad_norm", row.max_grad_norm}}) {
      if (value) j[name] = *value;
    }
    if (row.freeze) j["freeze"] = *row.freeze;
    if (row.unfreeze_step) j["unfreeze_step"] = *row.unfreeze_step;
    if (row.adamw) j["adamw"] = *row.adamw;
    out["param_group"].push_back(counted(std::move(j), count_members(groups.members[i], layout)));
  }
  if (groups.layer_decay != 1) {
    for (const auto& [depth, row] : layer_rows(groups, layout))
      out["layer_decay"].push_back(counted({{"layer", row.name}, {"scale", row.scale}}, row.count));
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace amp
