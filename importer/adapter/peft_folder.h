// LoRA adapters as folders of Hugging Face's PEFT: adapter_config.json and adapter_model.safetensors, with the tensors
// "base_model.model.MODULE.lora_A.weight" [r, in], "...lora_B.weight" [out, r] and, for DoRA,
// "...lora_magnitude_vector" [out]. https://huggingface.co/docs/peft (formats of version 0.21)
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct PeftModule {
  std::string name;      // such as "model.layers.0.self_attn.q_proj"
  HostTensor a, b;       // [r, in] and [out, r], in the file's types
  HostTensor magnitude;  // [out] for DoRA, else null
  double alpha = 0;      // lora_alpha, or the module's entry of alpha_pattern

  int64_t rank() const { return a.dims()[0]; }
};

struct PeftAdapter {
  bool rslora = false;               // the factor of B A is alpha / sqrt(r) instead of alpha / r
  bool dora = false;                 // Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024
  bool fan_in_fan_out = false;       // the base stores its weights [in, out], as GPT-2's Conv1D
  std::string base;                  // value of base_model_name_or_path
  std::vector<PeftModule> modules;   // sorted by name
  int32_t base_sum = 0;              // base_checksum() in the tensor file's metadata; 0: unknown
  std::vector<std::string> targets;  // target_modules to write; empty: the names of all modules
  nlohmann::ordered_json config;     // the file's other keys, kept when the adapter is written; may be null

  double scale(const PeftModule& module) const;
};

// Returns whether a path is a folder with adapter_config.json.
bool is_peft_folder(const std::string& path);

// Reads a folder. Only low-rank adapters of linear maps are read. Everything else that would change the model's outputs
// is refused by its name: other methods than LoRA, trained biases, whole modules, embeddings, activated adapters, and
// initializations that change the base (PiSSA, OLoRA, ...). Throws E_PEFT (Exit::data), and the errors of read_file()
// and read_safetensors().
PeftAdapter read_peft_folder(const std::string& folder);

// Writes both files; the folder is created. Modules must be low-rank pairs of equal rank. Factors are stored by
// rank_pattern and alpha_pattern where modules differ, so that PEFT computes with the same factors.
void write_peft_folder(const std::string& folder, const PeftAdapter& adapter);

// Returns whether a key of rank_pattern or alpha_pattern, a regular expression, matches a module's name as in PEFT. It
// must match the name, or the name's end after a dot. With a leading ^ it must match the whole name. Throws E_PEFT for
// expressions with groups, alternatives or sets.
bool peft_pattern_matches(const std::string& pattern, const std::string& name);

}  // namespace amp
