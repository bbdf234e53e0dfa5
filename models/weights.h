// Where the weights of a model that is built come from: drawn as a framework draws them, or a checkpoint's.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "base/safetensors.h"

namespace amp {

// How a weight begins when it is drawn.
struct Init {
  enum class Kind { constant, normal, uniform };
  Kind kind = Kind::constant;
  double value = 0;   // the constant, the standard deviation, the bound
  double cutoff = 0;  // of a normal one: drawn again beyond so many deviations; 0: never

  static Init constant(double x) { return {Kind::constant, x}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init truncated(double deviation, double cutoff) { return {Kind::normal, deviation, cutoff}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // fp32, of these dims.
  virtual HostTensor get(const std::string& name, const Dims& dims, const Init& init) = 0;
  // Whether an optional part of a model is there: a pooler, a bias.
  virtual bool has(const std::string& name) const = 0;
};

// Drawn by Philox from seed and name: the same weight in whatever order a model asks.
class DrawnWeights final : public WeightSource {
 public:
  explicit DrawnWeights(uint64_t seed) : seed_(seed) {}
  HostTensor get(const std::string& name, const Dims& dims, const Init& init) override;
  bool has(const std::string&) const override { return true; }

 private:
  uint64_t seed_;
};

// A folder as Hugging Face's save_pretrained leaves it: model.safetensors, or the files that
// model.safetensors.index.json names. Floating tensors of any width are given in fp32. The base model's prefix
// ("bert.") may be missing in the checkpoint or there in excess, and LayerNorm's weights may be called gamma and beta.
//
// Errors: Exit::data. E_CHECKPOINT: no folder, no safetensors in it, a part that the index names missing;
// E_CHECKPOINT_TENSOR: a tensor missing (its name, and what the checkpoint has of the kind) or of other dims.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const std::string& folder, std::string prefix);
  HostTensor get(const std::string& name, const Dims& dims, const Init& init) override;
  bool has(const std::string& name) const override { return find(name) != nullptr; }

  // A head that the checkpoint does not have begins as it would in a new model: names that begin so are drawn.
  void draw(const std::string& name_prefix, uint64_t seed);
  const std::vector<std::string>& drawn() const { return drawn_; }  // names
  std::vector<std::string> unused() const;                          // tensors of the checkpoint that nothing asked for

 private:
  const NamedTensor* find(const std::string& name) const;

  std::string folder_, prefix_;
  std::vector<NamedTensor> tensors_;
  std::set<std::string> used_;
  std::vector<std::pair<std::string, uint64_t>> may_draw_;
  std::vector<std::string> drawn_;
};

}  // namespace amp
