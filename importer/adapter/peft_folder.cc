// Reads and writes PEFT folders. Every entry of a folder is either represented in PeftAdapter or refused. If an entry
// were ignored, the outputs would silently differ from PEFT's.
#include "importer/adapter/peft_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/safetensors.h"
#include "base/text.h"

namespace amp {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kConfig = "/adapter_config.json";
constexpr const char* kTensors = "/adapter_model.safetensors";
constexpr const char* kBaseSum = "onnx_amp_base_checksum";
constexpr std::string_view kPrefix = "base_model.model.";
// The keys that PeftAdapter's members represent; all others are kept unchanged.
constexpr const char* kOwn[] = {
    "peft_type",      "r",          "lora_alpha", "rank_pattern",   "alpha_pattern",
    "target_modules", "use_rslora", "use_dora",   "fan_in_fan_out", "base_model_name_or_path"};

[[noreturn]] void refuse_peft(const std::string& fact, const std::string& hint = {}) {
  fail(Exit::data, "E_PEFT", fact, hint);
}

// Returns whether a value switches nothing on: null, false, 0, or an empty text, list or object.
bool is_off(const json& v) {
  return v.is_null() || (v.is_boolean() && !v.get<bool>()) || (v.is_number() && v.get<double>() == 0) ||
         ((v.is_string() || v.is_structured()) && (v.is_string() ? v.get<std::string>().empty() : v.empty()));
}

const json& at(const json& config, const char* key) {
  static const json none;
  const auto it = config.find(key);
  return it == config.end() ? none : *it;
}

bool flag(const json& config, const char* key) {
  const json& v = at(config, key);
  if (!v.is_null() && !v.is_boolean()) refuse_peft(cat("'", key, "' is not true or false"));
  return v.is_boolean() && v.get<bool>();
}

double positive(const json& v, const char* key) {
  if (!v.is_number() || !(v.get<double>() > 0) || !std::isfinite(v.get<double>()))
    refuse_peft(cat("'", key, "' is not a positive number"));
  return v.get<double>();
}

// Refuses variants of LoRA whose outputs differ from x + factor B A x.
void require_plain_lora(const json& config) {
  const json& type = at(config, "peft_type");
  if (!type.is_string() || type.get<std::string>() != "LORA")
    refuse_peft(cat("peft_type is ", printable(type.dump()), ", not LORA"), "adapters of LoRA and DoRA are read");
  const json& bias = at(config, "bias");
  if (!bias.is_null() && bias != "none")
    refuse_peft(cat("bias is ", printable(bias.dump()), ": the adapter changes biases of the base"),
                "train it with bias=\"none\"");
  for (const char* key : {"modules_to_save", "layer_replication", "lora_bias", "trainable_token_indices",
                          "target_parameters", "alora_invocation_tokens", "use_qalora", "use_bdlora", "arrow_config",
                          "kasa_config", "monteclora_config", "velora_config"}) {
    if (!is_off(at(config, key)))
      refuse_peft(cat("'", key, "' is set, which is not read"), "train the adapter without it");
  }
  const json& start = at(config, "init_lora_weights");
  if (!start.is_string()) return;
  const auto name = start.get<std::string>();
  for (const char* changing : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
    if (name.starts_with(changing))
      refuse_peft(
          cat("init_lora_weights '", printable(name), "' changes the weights of the base"),
          "save it with save_pretrained(..., path_initial_model_for_weight_conversion=...), which makes it plain LoRA");
  }
}

// Returns the entry of rank_pattern or alpha_pattern for a module; null if there is none.
const json* pattern_entry(const json& config, const char* key, const std::string& module) {
  const json& patterns = at(config, key);
  if (patterns.is_null()) return nullptr;
  if (!patterns.is_object()) refuse_peft(cat("'", key, "' is not an object"));
  for (const auto& [pattern, value] : patterns.items()) {
    if (peft_pattern_matches(pattern, module)) return &value;
  }
  return nullptr;
}

struct Part {
  std::string module;
  HostTensor PeftModule::*member = nullptr;  // null: tensors of this kind are not read
};

// Splits "base_model.model.MODULE.lora_A.weight". Older files have the adapter's name, "default", before "weight".
Part part_of(const std::string& tensor) {
  struct Kind {
    std::string_view ending;
    HostTensor PeftModule::*member;
  };
  constexpr Kind kKinds[] = {{".lora_A.weight", &PeftModule::a},
                             {".lora_A.default.weight", &PeftModule::a},
                             {".lora_B.weight", &PeftModule::b},
                             {".lora_B.default.weight", &PeftModule::b},
                             {".lora_magnitude_vector", &PeftModule::magnitude},
                             {".lora_magnitude_vector.weight", &PeftModule::magnitude},
                             {".lora_magnitude_vector.default.weight", &PeftModule::magnitude}};
  std::string_view name = tensor;
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const Kind& kind : kKinds) {
    if (name.ends_with(kind.ending) && name.size() > kind.ending.size())
      return {std::string(name.substr(0, name.size() - kind.ending.size())), kind.member};
  }
  return {};
}

void collect_tensors(const SafeTensors& file, std::map<std::string, PeftModule>& modules) {
  for (const NamedTensor& t : file.tensors) {
    const Part part = part_of(t.name);
    if (!part.member)
      refuse_peft(
          cat("tensor '", printable(t.name), "' is not lora_A, lora_B or lora_magnitude_vector of a linear map"),
          "whole weights, biases and embeddings in adapters are not read");
    if (!is_float(t.tensor.dtype()))
      refuse_peft(cat("tensor '", printable(t.name), "' holds ", name_of(t.tensor.dtype())));
    PeftModule& module = modules[part.module];
    if (module.*part.member) refuse_peft(cat("tensor '", printable(t.name), "' occurs twice"));
    module.*part.member = t.tensor;
    module.name = part.module;
  }
}

void check_module(const PeftModule& m, bool dora) {
  const std::string module = cat("module '", printable(m.name), "'");
  if (!m.a || !m.b) refuse_peft(cat(module, " has no ", m.a ? "lora_B" : "lora_A"));
  if (m.a.rank() != 2 || m.b.rank() != 2)
    refuse_peft(cat(module, ": lora_A ", to_string(m.a.dims()), " and lora_B ", to_string(m.b.dims()),
                    " are not those of a linear map"));
  if (m.a.dims()[0] != m.b.dims()[1] || m.a.dims()[0] == 0)
    refuse_peft(cat(module, ": lora_A ", to_string(m.a.dims()), " has rank ", m.a.dims()[0], ", lora_B ",
                    to_string(m.b.dims()), " has rank ", m.b.dims()[1]));
  if (dora != static_cast<bool>(m.magnitude))
    refuse_peft(cat(module, dora ? " has no lora_magnitude_vector, although use_dora is true"
                                 : " has a lora_magnitude_vector, although use_dora is not true"));
  if (dora && m.magnitude.numel() != m.b.dims()[0])
    refuse_peft(cat(module, ": lora_magnitude_vector ", to_string(m.magnitude.dims()), " beside lora_B ",
                    to_string(m.b.dims())));
}

PeftAdapter read_config(const json& config) {
  require_plain_lora(config);
  PeftAdapter out;
  out.rslora = flag(config, "use_rslora");
  out.dora = flag(config, "use_dora");
  out.fan_in_fan_out = flag(config, "fan_in_fan_out");
  if (const json& base = at(config, "base_model_name_or_path"); base.is_string()) out.base = base.get<std::string>();
  if (const json& targets = at(config, "target_modules"); targets.is_array()) {
    for (const json& t : targets) {
      if (t.is_string()) out.targets.push_back(t.get<std::string>());
    }
  }
  out.config = config;
  for (const char* key : kOwn) out.config.erase(key);
  return out;
}

void read_modules(const std::string& folder, const json& config, PeftAdapter& out) {
  if (!path_exists(folder + kTensors))
    refuse_peft("there is no adapter_model.safetensors",
                path_exists(folder + "/adapter_model.bin")
                    ? "save it with save_pretrained(..., safe_serialization=True): adapter_model.bin is a pickle"
                    : "");
  const json& r = at(config, "r");
  if (!r.is_number_integer() || r.get<int64_t>() < 1) refuse_peft("'r' is not a positive integer");
  const double alpha = positive(at(config, "lora_alpha"), "lora_alpha");
  std::map<std::string, PeftModule> modules;
  const SafeTensors file = read_safetensors(folder + kTensors);
  if (const auto it = file.metadata.find(kBaseSum); it != file.metadata.end()) {
    const char* const end = it->second.data() + it->second.size();
    if (std::from_chars(it->second.data(), end, out.base_sum).ptr != end) out.base_sum = 0;
  }
  collect_tensors(file, modules);
  if (modules.empty()) refuse_peft("the adapter has no tensors");
  for (auto& [name, m] : modules) {
    check_module(m, out.dora);
    const json* const rank = pattern_entry(config, "rank_pattern", name);
    const json& wanted = rank ? *rank : r;
    if (!wanted.is_number_integer() || wanted.get<int64_t>() != m.rank())
      refuse_peft(cat("module '", printable(name), "' has rank ", m.rank(), ", adapter_config.json says ",
                      printable(wanted.dump())));
    const json* const own = pattern_entry(config, "alpha_pattern", name);
    m.alpha = own ? positive(*own, "alpha_pattern") : alpha;
    out.modules.push_back(std::move(m));
  }
}

// Returns the most frequent value of the modules, and among equally frequent values the smallest.
template <class F>
auto most_frequent(const std::vector<PeftModule>& modules, const F& value) {
  std::map<decltype(value(modules.front())), size_t> counts;
  for (const PeftModule& m : modules) ++counts[value(m)];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& x, const auto& y) { return x.second < y.second; })
      ->first;
}

json number(double x) { return x == std::floor(x) && std::abs(x) < 1e15 ? json(static_cast<int64_t>(x)) : json(x); }

json config_of(const PeftAdapter& adapter) {
  const auto rank = [](const PeftModule& m) { return m.rank(); };
  const auto alpha = [](const PeftModule& m) { return m.alpha; };
  const int64_t r = most_frequent(adapter.modules, rank);
  const double lora_alpha = most_frequent(adapter.modules, alpha);
  json config = adapter.config.is_object() ? adapter.config : json::object();
  json ranks = json::object(), alphas = json::object(), targets = json::array();
  for (const PeftModule& m : adapter.modules) {
    if (m.rank() != r) ranks[m.name] = m.rank();
    if (m.alpha != lora_alpha) alphas[m.name] = number(m.alpha);
    if (adapter.targets.empty()) targets.push_back(m.name);
  }
  for (const std::string& t : adapter.targets) targets.push_back(t);
  config["peft_type"] = "LORA";
  config["base_model_name_or_path"] = adapter.base.empty() ? json() : json(adapter.base);
  config["r"] = r;
  config["lora_alpha"] = number(lora_alpha);
  config["rank_pattern"] = ranks;
  config["alpha_pattern"] = alphas;
  config["target_modules"] = targets;
  config["use_rslora"] = adapter.rslora;
  config["use_dora"] = adapter.dora;
  config["fan_in_fan_out"] = adapter.fan_in_fan_out;
  const auto preset = [&](const char* key, const json& value) {
    if (!config.contains(key)) config[key] = value;
  };
  preset("bias", "none");
  preset("inference_mode", true);
  preset("init_lora_weights", true);
  preset("lora_dropout", 0.0);
  preset("modules_to_save", nullptr);
  preset("task_type", nullptr);
  return config;
}

}  // namespace

double PeftAdapter::scale(const PeftModule& module) const {
  const auto r = static_cast<double>(module.rank());
  return module.alpha / (rslora ? std::sqrt(r) : r);
}

bool is_peft_folder(const std::string& path) { return is_dir(path) && path_exists(path + kConfig); }

PeftAdapter read_peft_folder(const std::string& folder) {
  try {
    const json config = parse_json<json>(read_file(folder + kConfig, Exit::data).text());
    if (!config.is_object()) refuse_peft("adapter_config.json is not a JSON object");
    PeftAdapter out = read_config(config);
    read_modules(folder, config, out);
    return out;
  } catch (Error& e) {
    throw e.at(cat("in the PEFT folder '", printable(folder), "'"));
  }
}

void write_peft_folder(const std::string& folder, const PeftAdapter& adapter) {
  check(!adapter.modules.empty(), "a PEFT folder without modules");
  ensure_dir(folder);
  std::vector<NamedTensor> tensors;
  for (const PeftModule& m : adapter.modules) {
    const std::string stem = cat(kPrefix, m.name);
    tensors.push_back({stem + ".lora_A.weight", m.a});
    tensors.push_back({stem + ".lora_B.weight", m.b});
    if (m.magnitude) tensors.push_back({stem + ".lora_magnitude_vector", m.magnitude});
  }
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (adapter.base_sum != 0) metadata[kBaseSum] = std::to_string(adapter.base_sum);
  write_safetensors(folder + kTensors, tensors, metadata);
  FileWriter config(folder + kConfig);
  config.write(config_of(adapter).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  config.commit();
}

}  // namespace amp
