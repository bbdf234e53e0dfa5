// LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): y = x W + scale * x A B, with the
// model's weight W frozen, A [in, r] and B [r, out]. scale = alpha / r, or alpha / sqrt(r) with rsLoRA (Kalajdzievski,
// "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023). DoRA (Liu et al., "DoRA: Weight-Decomposed
// Low-Rank Adaptation", 2024) multiplies each column n by m[n] / |W + scale A B|[n]; the norm gets no gradient.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/source.h"
#include "importer/surgery/linear_maps.h"
#include "importer/write/export.h"

namespace amp {

enum class LoraInit : uint8_t {
  kaiming,   // A is uniform in +-1/sqrt(in), as PyTorch's kaiming_uniform_(a = sqrt(5)); B is zero
  gaussian,  // A is normal with standard deviation 1/r; B is zero
  zero,      // A is zero; B is uniform, like A of kaiming
  pissa,     // Meng et al., "PiSSA", 2024: A and B hold the largest singular values of W, and W keeps the rest
};

struct LoraOptions {
  int64_t r = 8;
  double alpha = 16;
  // Roles, groups of roles (linear_maps.h), globs for names, or module names as "q_proj". Empty: every product except a
  // new classifier and a language model's head over its vocabulary.
  std::vector<std::string> targets;
  bool exact_targets = false;  // targets are values of LoraAdapter::name, not roles, globs or parts of names
  std::vector<std::pair<std::string, int64_t>> ranks;  // targets with another r; the first match counts
  std::vector<std::pair<std::string, double>> alphas;  // targets with another alpha; the first match counts
  double dropout = 0;                                  // dropout of x, in the adapter only
  bool rslora = false, dora = false;
  bool fused = false;   // one adapter for a map with parts (q|k|v), instead of one per part
  double lr_ratio = 1;  // LoRA+ (Hayou et al., 2024): the learning rate of B divided by that of A
  LoraInit init = LoraInit::kaiming;
  bool separate = false;  // the exported model has no adapters: they are written to separate files
  bool keep = false;      // export A and B as separate initializers; otherwise merge them into W where that is possible
  uint64_t seed = 42;
  std::vector<std::string> trainable;  // globs of base weights that are trained in addition
  Evaluator evaluate;                  // computes dense weights from quantized ones; needed by dora
};

// Parses "r=8,alpha=16,targets=GLOB[,...]"; docs/lora.md lists the keys. Throws E_LORA (Exit::usage) for other
// texts.
LoraOptions parse_lora(const std::string& text);

// One pair of A and B. A map with parts has an adapter per part.
struct LoraAdapter {
  std::string name;        // name of the adapted weight or part; A is called name + ".lora_A"
  std::string map;         // name of the whole linear map (LinearMap::name)
  std::string node;        // name of the map's first node in the file
  std::string role, part;  // LinearMap::role; "q", "k", "v", "gate" or "up" if it adapts only this part, else ""
  MapKind kind = MapKind::product;
  int weight = -1;          // LinearMap::weight
  bool transposed = false;  // LinearMap::transposed
  DType type = DType::f32;  // type of the map's arithmetic, and of A and B in the file
  int64_t in = 0, out = 0;  // K and N of A [K, r] and B [r, N]; N of the part
  int64_t first = 0;        // the part's first column in the map's output
  int64_t map_out = 0;      // number of columns of the map's output
  int64_t rank = 0;
  double alpha = 0, scale = 1;
  // Parameters of the SourceGraph: A [in, r], B [r, out], and DoRA's m [out] in fp32 (-1: no DoRA). A convolution has A
  // [r, channels, kernel...] and B [out, r, 1...] instead.
  int a = -1, b = -1, magnitude = -1;
  bool merged = false;  // export adds it to the weight; otherwise it stays as nodes
};

struct LoraResult {
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> lines;    // messages for the user
  std::vector<std::string> details;  // one per map: role, shape, form
};

// Returns the name of the adapter of one part (q, k or v; gate or up) of a merged linear map. In
// "layers.0.attn.qkv_proj.weight", qkv_proj becomes q_proj. The role is appended to other names.
std::string part_name(const std::string& map, const std::string& role);

// Adds an adapter to every map that `targets` selects. Freezes all parameters except adapters, new heads and
// `trainable`. A weight that several nodes use in the same way has one adapter. Maps that cannot be merged although
// nothing quantizes them (a tied embedding), tables and convolutions get one only if a target selects nothing else or
// names their role. Throws E_LORA (Exit::usage) if a target selects nothing, or for dora and pissa on maps that do not
// support them.
LoraResult add_lora(SourceGraph& g, const LoraOptions& options);

// Returns `trained` with the adapted weight as the value of each weight whose adapters are `merged`. trained: all
// parameters of the session.
std::vector<TrainedTensor> merge_lora(const SourceGraph& g, const std::vector<LoraAdapter>& adapters,
                                      std::vector<TrainedTensor> trained);

}  // namespace amp
