// Evidence from a tensor's positions in the graph.
#pragma once

#include <algorithm>

#include "importer/discover/evidence.h"
#include "importer/discover/low_rank_pairs.h"
#include "importer/discover/positions.h"
#include "importer/discover/torch_scopes.h"

namespace amp {

bool after_product(const Use& u);  // true if the value is added to the result of a MatMul, Gemm or convolution
bool after_norm(const Use& u);     // true if the value is the scale or shift of an unfused normalization

class PositionEvidence {
 public:
  explicit PositionEvidence(const SourceGraph& g);

  std::vector<Use> uses(int value) const { return uses_through_views(g_, consumers_, live_, value); }
  // Returns the first use in which a node reads the value as a weight, else the first use.
  static const Use& main_use(const std::vector<Use>& uses);
  static std::string place(const Use& u);  // such as "input 1 of MatMul '/layer/MatMul' (through Transpose)"
  // Stores two facts about the whole file. `learned`: it holds unstructured weights, so a structured tensor is unusual.
  // `raw_is_usual`: many of its weights are read by raw products (see raw_product()).
  void set_file(bool learned, bool raw_is_usual) { learned_ = learned, raw_is_usual_ = raw_is_usual; }
  bool raw_product(const Use& u) const;  // true for a product without bias that a larger module computes itself
  // True if a gradient reaches the value from an output and no pattern around it shows that it is fixed.
  bool learnable(int value) const;
  std::vector<Evidence> weigh(int value, const std::vector<Use>& uses, Naming naming) const;

 private:
  const SourceValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }
  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }
  bool constant(int v) const { return v >= 0 && static_cast<bool>(value(v).data); }
  bool carries_data(int v) const { return v >= 0 && carries_data_[static_cast<size_t>(v)]; }
  bool reads_data(const SourceNode& n) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return carries_data(i); });
  }
  bool one_element_weight(const HostTensor& data, const std::vector<Use>& uses) const;
  bool rotary(int v) const;
  bool becomes_kernel(const SourceNode& wave) const;
  bool changes_nothing(const std::string& op, int v) const;
  bool dummy_norm(const Use& u) const;
  bool standardizes(const Use& u, const HostTensor& data) const;
  bool all_equal(const SourceGraph& g, int v, double want) const;
  bool frozen_norm(const Use& u) const;
  // The functions below are defined in importer/discover/evidence_role.cc.
  void weigh_roles(int v, const std::vector<Use>& uses, std::vector<Evidence>& out) const;
  bool unstandardizes(const Use& u, const HostTensor& data) const;
  bool power_iteration(int v) const;
  double fourier_features(int v) const;  // returns log-odds; 0 if v is not a projection of Fourier features
  bool codebook(int v) const;
  bool random_phase(int v) const;
  bool lerp_center(int v) const;
  bool rounded_copy(int v) const;
  bool joined_token(int v) const;
  bool whitening(int v, const std::vector<Use>& uses) const;
  bool whitening_mean(int v, const std::vector<Use>& uses) const;
  bool scaler(int v, const std::vector<Use>& uses) const;
  bool input_norm(const Use& u, const HostTensor& data) const;
  bool without_bias(const SourceNode& product) const;
  double outside_of_layers(int v, const Use& u, Naming naming) const;  // returns log-odds; 0 if v belongs to a layer
  bool fixed_product(int v, const std::vector<Use>& uses) const;
  void find_data();
  void find_reached();
  void find_input_like();
  void find_frozen_norms();

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  const std::vector<char> live_;
  const TorchScopes scopes_;
  const LowRankPairs pairs_;
  std::vector<char> carries_data_, reached_;
  std::vector<char> input_like_;  // the value is a graph input, rearranged or standardized by constants
  bool learned_ = false, raw_is_usual_ = false;
  bool frozen_norms_ = false;  // true: constants of shape [1, C, 1, 1] in Mul and Add may belong to frozen norms
};

}  // namespace amp
