// Parameter groups: the effect of `param_group`, `layer_decay` and `gradual_unfreezing` on each parameter.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/discover/layer_depths.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

struct OptimizationSpec;

// An element of `param_group`: "GLOB: lr=1e-5, weight_decay=0", or {"params": "GLOB", "lr": 1e-5}.
struct ParamGroup {
  std::string glob;
  std::optional<double> lr;        // peak learning rate; the schedule scales it
  std::optional<double> lr_scale;  // factor of the schedule's learning rate
  std::optional<double> weight_decay;
  std::optional<bool> freeze;
  std::optional<double> max_grad_norm;   // limit of the norm of the gradients of this group's parameters
  std::optional<int64_t> unfreeze_step;  // the parameters are frozen until this many steps were applied
  // True: AdamW updates the parameter although the optimizer is one for matrices (muon).
  std::optional<bool> adamw;
};
// Parses `param_group`. Throws E_FLAG_VALUE and E_FLAG_RANGE (Exit::usage) for malformed elements.
std::vector<ParamGroup> requested_groups(const OptimizationSpec& optimization);

struct ParamGroups {
  struct Own {  // overrides of the run's settings for one parameter
    double lr_factor = 1;
    std::optional<double> weight_decay;
    int depth = 0;  // distance from the head in layers; 0: the head
    // 1 + the index in `rows` of the group whose max_grad_norm applies; 0: clipped with all other parameters
    int clip_group = 0;
    double max_grad_norm = 0;
    int64_t unfreeze_step = 0;
    bool adamw = false;
  };
  std::vector<ParamGroup> rows;
  std::vector<std::set<std::string>> members;  // for each element of `rows`, the names of its parameters (Chunk::name)
  double layer_decay = 1;
  int64_t unfreezing = 0;  // number of applied steps between the unfreezing of two layers
  LayerDepths layers;
  std::map<std::string, Own> own;  // key: a parameter's name (Chunk::name)
};

// Builds the groups. lr_factors: factors of the learning rate by parameter, which apply in addition to `layer_decay`;
// a group with lr or lr_scale replaces both. The model must have its head and adapters already. Freezes the parameters
// of groups with freeze=true. Throws E_GLOB if a glob matches nothing, and E_LAYER_DECAY if no layers are found.
ParamGroups group_parameters(const OptimizationSpec& optimization, const LayerDepths& layers, SourceGraph& graph,
                             const std::map<std::string, double>& lr_factors = {});

void apply_groups(const ParamGroups& groups, FlatLayout& layout);

// Logs a line per element of `param_group` and one for the layers. With `verbose`, also lists every layer and
// parameter.
void log_groups(const ParamGroups& groups, const OptimizationSpec& optimization, const FlatLayout& layout,
                const Log& log);
// Returns {"param_group": [...], "layer_decay": [...]} with the parameters of each, for run.json.
std::string groups_json(const ParamGroups& groups, const FlatLayout& layout);

}  // namespace amp
