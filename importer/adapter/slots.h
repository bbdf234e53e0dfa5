// Slots: places of a model where onnxruntime inserts an adapter. A linear map y = x W has a slot if the file computes y
// + x A B. A [K, lora_r] and B [lora_r, N] are graph inputs, and also initializers with lora_r = 0. Without an adapter
// the product of rank 0 is zero. An .onnx_adapter file gives values for these inputs by their names.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/surgery/linear_maps.h"

namespace amp {

// A linear map as files of adapters name it.
struct AdapterSite {
  std::string map;           // LinearMap::name
  int weight = -1;           // LinearMap::weight
  std::string module;        // "model.layers.0.attn.qkv_proj", from the node's name
  std::string a, b;          // names of the slot's inputs
  bool in_file = false;      // the file has the slot
  std::vector<int> outputs;  // values that the map's nodes compute, as import_model() numbers them
  double factor = 1;         // alpha of Gemm and FusedMatMul: B in the slot includes it
  bool one_factor = true;    // all nodes of the map have the same factor
  int64_t in = 0, out = 0;
  DType type = DType::f32;  // type of A and B
  std::vector<LinearMap::Part> parts;
  std::string role;  // LinearMap::role
};

// A slot that take_slots() found in the file.
struct FoundSlot {
  int output = -1;   // the value y of the base, to which the slot adds x A B
  std::string a, b;  // names of the inputs
};

// Removes the nodes of empty slots from a graph, so that it is the model without slots: readers of y + x A B read y.
// The file, which export writes, keeps them. A slot at a graph output stays; its A and B become constants. Called by
// import_model().
std::vector<FoundSlot> take_slots(SourceGraph& graph);

// Returns the maps of a model without adapters that are products (MatMul, MatMulNBits, ...). found: the slots that
// take_slots() removed; a map that had one keeps its names.
std::vector<AdapterSite> adapter_sites(const SourceGraph& graph, const std::vector<FoundSlot>& found);

// Returns a checksum of the weights of the maps, from 2^30 to 2^31 - 1. It identifies the base that an adapter was
// trained on. It does not depend on the order of the maps or on names. Packed weights count by their packed bytes.
int32_t base_checksum(const SourceGraph& graph, const std::vector<AdapterSite>& sites);
bool is_base_checksum(int32_t value);

// Returns the content of slots.json: a list of [name of A, name of B, K, N, "FLOAT"].
std::string slots_json(const std::vector<AdapterSite>& sites);

}  // namespace amp
