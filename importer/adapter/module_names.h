// Finds the linear map of a model that each module of an adapter's file belongs to, by name. Names come from PyTorch
// ("model.layers.0.self_attn.q_proj"), from onnxruntime-genai's model builder
// ("/model/layers.0/attn/qkv_proj/MatMul_Q4") or from an exporter ("/transformer/h.0/attn/c_attn/Gemm").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "importer/surgery/linear_maps.h"

namespace amp {

// A module of an adapter, with the extents of its weight.
struct ModuleShape {
  std::string name;
  int64_t in = 0, out = 0;
};

// A map of the model, with everything that it may be called: the names of its weight and nodes.
struct NamedMap {
  std::vector<std::string> names;  // the first one is for messages
  int64_t in = 0, out = 0;
  std::vector<LinearMap::Part> parts;
};

// The module's output rows [from, from + size) are the map's output columns [first, first + size).
struct Placement {
  size_t module = 0, map = 0;
  int64_t from = 0, first = 0, size = 0;
  std::string part;  // role of the part; empty: the whole map
};

// Returns one placement per module, in the order of the modules, or several for a packed module (qkv_proj,
// gate_up_proj) whose parts are separate maps. A module of a part (q_proj) is placed in the map that computes all
// parts. Paths are compared from their ends: the longest common ending wins, and what precedes it must be the same in
// both, except for components that one of the two lacks. Throws E_ADAPTER_FIT (Exit::data), which names the modules, if
// a module has no map, has several maps that fit equally well, or has other extents than its map, or if two modules
// change the same columns.
std::vector<Placement> place_modules(const std::vector<ModuleShape>& modules, const std::vector<NamedMap>& maps);

// Splits a name into the components that identify the module: "/model/layers.0/attn/o_proj/MatMul_Q4" and
// "model.layers.0.self_attn.o_proj.weight" give {"model", "layers", "0", "attn", "o_proj"}.
std::vector<std::string> module_components(const std::string& name);

}  // namespace amp
