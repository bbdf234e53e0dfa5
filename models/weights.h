// Sources of the weights of a model that is built: random initialization, or a checkpoint.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "base/safetensors.h"

namespace amp {

// How a weight is initialized.
struct Init {
  enum class Kind { constant, normal, uniform };
  Kind kind = Kind::constant;
  double value = 0;   // by kind: the constant, the standard deviation, or b of Uniform(-b, b)
  double cutoff = 0;  // for `normal`: values beyond this many deviations are drawn again; 0: off

  static Init constant(double x) { return {Kind::constant, x}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init truncated(double deviation, double cutoff) { return {Kind::normal, deviation, cutoff}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Returns the weight as an fp32 tensor of these dims. init: how to initialize it if it is random.
  virtual HostTensor get(const std::string& name, const Dims& dims, const Init& init) = 0;
  // Returns whether the source has this weight. Called for optional parts of a model, such as a pooler or a bias.
  virtual bool has(const std::string& name) const = 0;
};

// Draws random weights by Philox from the seed and the name, so that values do not depend on the order of calls.
class DrawnWeights final : public WeightSource {
 public:
  explicit DrawnWeights(uint64_t seed) : seed_(seed) {}
  HostTensor get(const std::string& name, const Dims& dims, const Init& init) override;
  bool has(const std::string&) const override { return true; }

 private:
  uint64_t seed_;
};

// Weights in a folder written by Hugging Face's save_pretrained: model.safetensors, or the files listed in
// model.safetensors.index.json. Floating-point tensors of any type are converted to fp32. Names in the checkpoint
// may lack or have the base model's prefix ("bert."), and LayerNorm's weights may be called gamma and beta.
//
// Throws E_CHECKPOINT (Exit::data) if the folder, its safetensors file or a file of the index is missing, or if the
// index is malformed. Throws E_CHECKPOINT_TENSOR (Exit::data) if a tensor is missing or has other dims; the message
// names the nearest tensor.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const std::string& folder, std::string prefix);
  HostTensor get(const std::string& name, const Dims& dims, const Init& init) override;
  bool has(const std::string& name) const override { return find(name) != nullptr; }

  // Permits that the checkpoint lacks weights whose names start with name_prefix, such as those of a new
  // head. Such weights are initialized at random.
  void draw(const std::string& name_prefix, uint64_t seed);
  const std::vector<std::string>& drawn() const { return drawn_; }  // names of the randomly initialized weights
  std::vector<std::string> unused() const;                          // checkpoint's tensors that were not read

 private:
  const NamedTensor* find(const std::string& name) const;

  std::string folder_, prefix_;
  std::vector<NamedTensor> tensors_;
  std::set<std::string> used_;
  std::vector<std::pair<std::string, uint64_t>> may_draw_;
  std::vector<std::string> drawn_;
};

}  // namespace amp
