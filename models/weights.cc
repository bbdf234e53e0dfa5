// Random weights (Philox by seed and name) and weights of a safetensors checkpoint. Pickled checkpoints are refused,
// because unpickling executes code. File names in a checkpoint's index must be plain names of files inside the folder.
#include "models/weights.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

// Draws values beyond the cutoff again, as torch.nn.init.trunc_normal_ does.
void draw_again(HostTensor& t, const Init& init, uint64_t seed, const std::string& name) {
  const auto most = static_cast<float>(init.cutoff * init.value);
  std::vector<int64_t> beyond;
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (std::abs(t.as<float>()[i]) > most) beyond.push_back(i);
  }
  for (int attempt = 1; !beyond.empty(); ++attempt) {
    const HostTensor other = normal_tensor({static_cast<int64_t>(beyond.size())}, init.value, seed,
                                           name_hash(cat(name, " again ", attempt)));
    std::vector<int64_t> left;
    for (size_t k = 0; k < beyond.size(); ++k) {
      t.as_mutable<float>()[beyond[k]] = other.as<float>()[k];
      if (std::abs(other.as<float>()[k]) > most) left.push_back(beyond[k]);
    }
    beyond = std::move(left);
  }
}

HostTensor drawn_tensor(const Dims& dims, const Init& init, uint64_t seed, const std::string& name) {
  switch (init.kind) {
    case Init::Kind::normal: {
      HostTensor t = normal_tensor(dims, init.value, seed, name_hash(name));
      if (init.cutoff > 0) draw_again(t, init, seed, name);
      return t;
    }
    case Init::Kind::uniform:
      return uniform_tensor(dims, init.value, seed, name_hash(name));
    case Init::Kind::constant:
      break;
  }
  HostTensor t = HostTensor::empty(DType::f32, dims);
  std::fill_n(t.as_mutable<float>(), t.numel(), static_cast<float>(init.value));
  return t;
}

nlohmann::json parse_index(const std::string& path) {
  const FileBytes file = read_file(path, Exit::data);
  const nlohmann::json j = parse_json(file.text());
  if (j.is_discarded() || !j.contains("weight_map") || !j["weight_map"].is_object())
    fail(Exit::data, "E_CHECKPOINT", cat(path, " has no object weight_map"));
  return j["weight_map"];
}

// Returns the files that hold the checkpoint's tensors, each once, sorted by name.
std::vector<std::string> parts_of(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path dir(folder);
  if (!fs::is_directory(dir))
    fail(Exit::data, "E_CHECKPOINT", cat(folder, " is no folder"), "name a checkpoint's folder");
  if (fs::exists(dir / "model.safetensors")) return {(dir / "model.safetensors").string()};
  const fs::path index = dir / "model.safetensors.index.json";
  if (!fs::exists(index)) {
    const bool pickled = fs::exists(dir / "pytorch_model.bin");
    fail(Exit::data, "E_CHECKPOINT", cat(folder, " has no model.safetensors"),
         pickled ? "pytorch_model.bin is a pickle, which can execute code: save the model again as safetensors, the "
                   "default of save_pretrained"
                 : "name a folder that save_pretrained wrote");
  }
  std::set<std::string> names;
  const nlohmann::json map = parse_index(index.string());
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      fail(Exit::data, "E_CHECKPOINT", cat(index.string(), ": the file of '", printable(tensor), "' is no plain name"));
    names.insert(file.get<std::string>());
  }
  std::vector<std::string> out;
  for (const std::string& name : names) out.push_back((dir / name).string());
  return out;
}

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  if (name.size() >= from.size() && name.compare(name.size() - from.size(), from.size(), from) == 0)
    name.replace(name.size() - from.size(), from.size(), to);
  return name;
}

}  // namespace

HostTensor DrawnWeights::get(const std::string& name, const Dims& dims, const Init& init) {
  return drawn_tensor(dims, init, seed_, name);
}

CheckpointWeights::CheckpointWeights(const std::string& folder, std::string prefix)
    : folder_(folder), prefix_(std::move(prefix)) {
  for (const std::string& part : parts_of(folder)) {
    for (NamedTensor& t : read_safetensors(part).tensors) tensors_.push_back(std::move(t));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

const NamedTensor* CheckpointWeights::find(const std::string& name) const {
  const auto exact = [&](const std::string& n) -> const NamedTensor* {
    const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), n,
                                     [](const NamedTensor& t, const std::string& s) { return t.name < s; });
    return it != tensors_.end() && it->name == n ? &*it : nullptr;
  };
  std::vector<std::string> names = {name, prefix_ + name};
  if (!prefix_.empty() && name.rfind(prefix_, 0) == 0) names.push_back(name.substr(prefix_.size()));
  for (const std::string& n : names) {
    for (const std::string& spelled :
         {n, replaced(n, "LayerNorm.weight", "LayerNorm.gamma"), replaced(n, "LayerNorm.bias", "LayerNorm.beta")}) {
      if (const NamedTensor* t = exact(spelled)) return t;
    }
  }
  return nullptr;
}

void CheckpointWeights::draw(const std::string& name_prefix, uint64_t seed) {
  may_draw_.emplace_back(name_prefix, seed);
}

HostTensor CheckpointWeights::get(const std::string& name, const Dims& dims, const Init& init) {
  const NamedTensor* t = find(name);
  if (!t) {
    for (const auto& [prefix, seed] : may_draw_) {
      if (name.rfind(prefix, 0) != 0) continue;
      drawn_.push_back(name);
      return drawn_tensor(dims, init, seed, name);
    }
    std::vector<std::string> names;
    for (const NamedTensor& other : tensors_) names.push_back(other.name);
    const std::string close = nearest(name, names);
    fail(Exit::data, "E_CHECKPOINT_TENSOR", cat(folder_, " has no tensor '", name, "' ", to_string(dims)),
         close.empty() ? "config.json describes another model than the checkpoint holds"
                       : cat("it has '", printable(close), "'"));
  }
  if (t->tensor.dims() != dims) {
    fail(Exit::data, "E_CHECKPOINT_TENSOR",
         cat(folder_, ": tensor '", printable(t->name), "' is ", to_string(t->tensor.dims()), ", and ", to_string(dims),
             " by config.json"));
  }
  if (!is_float(t->tensor.dtype()))
    fail(Exit::data, "E_CHECKPOINT_TENSOR",
         cat(folder_, ": tensor '", printable(t->name), "' holds no floating numbers"));
  used_.insert(t->name);
  return t->tensor.cast(DType::f32);
}

std::vector<std::string> CheckpointWeights::unused() const {
  std::vector<std::string> out;
  for (const NamedTensor& t : tensors_) {
    if (!used_.count(t.name)) out.push_back(t.name);
  }
  return out;
}

}  // namespace amp
