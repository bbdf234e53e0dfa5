// Parameter groups: what --param_group and --layer_decay come to for each parameter.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/discover/layer_depths.h"
#include "run/spec/spec.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

// A row of --param_group: "GLOB: lr=1e-5, weight_decay=0", or {"params": "GLOB", "lr": 1e-5}.
struct ParamGroup {
  std::string glob;
  std::optional<double> lr;        // its peak; it follows the schedule
  std::optional<double> lr_scale;  // times the schedule's
  std::optional<double> weight_decay;
  std::optional<bool> freeze;
  std::optional<double> max_grad_norm;   // of the row's own gradients
  std::optional<int64_t> unfreeze_step;  // applied steps before which they stay as they are
  std::optional<bool> adamw;             // under a rule of matrices
};
// Usage errors E_FLAG_VALUE, E_FLAG_RANGE for what does not read as one.
std::vector<ParamGroup> asked_groups(const RunSpec& spec);

struct ParamGroups {
  struct Own {  // what a parameter has in the place of the run's
    double lr_factor = 1;
    std::optional<double> weight_decay;
    int depth = 0;       // below the head
    int clip_group = 0;  // the row's number, from 1; 0: with all others
    double max_grad_norm = 0;
    int64_t unfreeze_step = 0;
    bool adamw = false;
  };
  std::vector<ParamGroup> rows;
  std::vector<std::set<std::string>> members;  // of each row, by the name of their chunk
  double layer_decay = 1;
  int64_t unfreezing = 0;  // applied steps from one layer to the next
  LayerDepths layers;
  std::map<std::string, Own> own;  // by the name of a chunk
};

// Of a model with its head and adapters; freezes what rows freeze. E_GLOB for a glob that matches nothing,
// E_LAYER_DECAY when no layers are found.
ParamGroups group_parameters(const RunSpec& spec, const LayerDepths& layers, SourceGraph& graph);

void apply_groups(const ParamGroups& groups, FlatLayout& layout);

// A line for each row and for the layers; in full, and each parameter, as details.
void tell_groups(const ParamGroups& groups, const RunSpec& spec, const FlatLayout& layout, const Log& log);
// {"param_group": [...], "layer_decay": [...]}, with what falls into each: for run.json.
std::string groups_json(const ParamGroups& groups, const FlatLayout& layout);

}  // namespace amp
