// Finds the linear maps of a graph, and what each of them is for. A linear map is a node that multiplies an activation
// by a stored weight W [in, out], whatever the form in which the file stores W. LoRA (lora.h) adapts such maps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

enum class MapKind : uint8_t {
  product,      // MatMul, Gemm, FusedMatMul with a floating-point parameter
  packed,       // MatMulNBits, MatMulBnb4: the weight is stored in 2 to 8 bits
  dequantized,  // MatMul, Gemm, FusedMatMul after DequantizeLinear
  convolution,  // Conv with one group and a floating-point parameter; in = channels times kernel positions
  table,        // Gather of rows, or GatherBlockQuantized; in = rows, out = columns
};

struct LinearMap {
  struct Use {
    int node = -1;
    double factor = 1;  // alpha of Gemm and FusedMatMul
  };
  // Consecutive output columns that the graph reads separately, as q, k and v of a packed product.
  struct Part {
    std::string role;  // "q", "k", "v", "gate", "up"
    int64_t first = 0, size = 0;
  };

  MapKind kind = MapKind::product;
  std::vector<Use> uses;    // all nodes that read the weight in this way; at least one
  int weight = -1;          // value of the weight: a parameter, or the constant with the packed or quantized numbers
  std::string name;         // weight's name without the suffix of a quantizer; the node's if the former is a number
  int64_t in = 0, out = 0;  // extents of W
  bool transposed = false;  // for product and dequantized: W is stored as [out, in]
  DType type = DType::f32;  // type of the map's arithmetic
  // True if the trained weight can replace W in the file: W is a floating-point parameter that nothing else reads.
  bool mergeable = false;
  // The purpose of the map: q, k, v, qkv, o, gate, up, gate_up, down, head, embedding, conv or other. See map_roles.cc.
  std::string role = "other";
  bool by_name = false;     // the role follows from the name, because the graph does not show it
  std::vector<Part> parts;  // empty: the graph reads the output as a whole

  // True for products (product, packed, dequantized), false for convolutions and tables.
  bool is_product() const { return kind != MapKind::convolution && kind != MapKind::table; }
};

// Returns all linear maps, ordered by their first node, with roles and parts.
std::vector<LinearMap> find_linear_maps(const SourceGraph& g);

// Sets role, by_name and parts of each map. Called by find_linear_maps().
void assign_roles(const SourceGraph& g, std::vector<LinearMap>& maps);

// Returns true if a role belongs to a group: "attention" (q, k, v, qkv, o), "mlp" (gate, up, gate_up, down),
// "all-linear" (all roles except head, embedding and conv). A role is also the name of a group that has only this role,
// except "qkv", which also includes q, k and v.
bool role_in(const std::string& role, const std::string& group);
// Returns true if a word is a role or a group of roles.
bool is_role(const std::string& word);

}  // namespace amp
