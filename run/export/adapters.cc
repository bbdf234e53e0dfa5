// Exports a model with slots, and the files of adapters. Names of PEFT modules depend on the architecture, which
// genai_config.json or config.json in the base's folder states.
#include "run/export/adapters.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "importer/adapter/trained.h"
#include "run/folder/run_files.h"
#include "run/spec/output.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
namespace fs = std::filesystem;

std::string text_of(const nlohmann::json& j, const char* key) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return it != j.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::string type_in(const fs::path& folder) {
  const std::string genai = (folder / "genai_config.json").string(), hub = (folder / "config.json").string();
  if (path_exists(genai)) {
    const nlohmann::json j = parse_json(read_file(genai).text());
    if (const auto it = j.is_object() ? j.find("model") : j.end(); it != j.end()) return text_of(*it, "type");
  }
  return path_exists(hub) ? text_of(parse_json(read_file(hub).text()), "model_type") : std::string();
}

// Returns the name of the base for PEFT: the name of the checkpoint's origin in config.json; else the name of the
// folder if it holds a language model; else the name of the file.
std::string name_of_base(const std::string& file) {
  const fs::path path = fs::absolute(file).lexically_normal(), folder = path.parent_path();
  const std::string hub = (folder / "config.json").string();
  const bool configured = path_exists(hub);
  if (configured) {
    if (const std::string name = text_of(parse_json(read_file(hub).text()), "_name_or_path"); !name.empty())
      return name;
  }
  const bool named = configured || path_exists((folder / "genai_config.json").string());
  return named && folder.has_filename() ? folder.filename().string() : path.stem().string();
}

std::set<int> adapted_weights(const Trainable& t) {
  std::set<int> out;
  for (const LoraAdapter& a : t.lora) out.insert(a.weight);
  return out;
}

std::vector<AdapterSite> slots_of(const Trainable& t) {
  const std::set<int> adapted = adapted_weights(t);
  std::vector<AdapterSite> out;
  for (const AdapterSite& s : t.sites) {
    if (s.in_file || (s.one_factor && (s.role != "head" || adapted.count(s.weight)))) out.push_back(s);
  }
  return out;
}

TrainedValues values_by_index(const std::vector<TrainedTensor>& tensors) {
  TrainedValues out;
  for (const TrainedTensor& t : tensors) out[t.source_value] = t.value;
  return out;
}

}  // namespace

bool writes_model(const OutputSpec& output, const Trainable& trainable) {
  return trainable.lora.empty() || output.lora_exports_model();
}

std::vector<AdapterSite> slots_to_add(const OutputSpec& output, const Trainable& trainable) {
  return output.exports_lora("slots") && !trainable.lora.empty() ? slots_of(trainable) : std::vector<AdapterSite>();
}

WrittenModel export_adapters(const OutputSpec& output, const PreparedModel& ready,
                             const std::vector<TrainedTensor>& tensors, const std::string& base,
                             const std::string& path) {
  const Trainable& t = ready.trainable;
  WrittenModel out{writes_model(output, t) ? path : base, ""};
  if (t.lora.empty()) return out;
  const TrainedValues values = values_by_index(tensors);
  const bool slots = output.exports_lora("slots");
  if (output.exports_lora("peft")) {
    PeftNames names;
    names.start = t.start.get();
    names.model_type = type_in(fs::path(base).parent_path());
    names.base = name_of_base(base);
    out.adapter = peft_folder_of(path);
    PeftAdapter adapter = peft_values(t.lora, t.sites, values, names);
    adapter.base_sum = t.base_sum;
    // PEFT chooses the class of the model by this value.
    if (task_rule(ready.task).text == TextForm::own_tokens && !adapter.config.contains("task_type"))
      adapter.config["task_type"] = "CAUSAL_LM";
    write_peft_folder(out.adapter, adapter);
  }
  if (slots || output.exports_lora("adapter")) {
    out.adapter = fs::path(path).replace_extension(".onnx_adapter").string();
    OnnxAdapter adapter = slot_values(t.lora, t.sites, values);
    if (t.base_sum != 0) adapter.model_version = t.base_sum;
    write_onnx_adapter(out.adapter, adapter);
  }
  if (slots) {
    FileWriter file(slots_file(path));
    file.write(slots_json(slots_of(t)));
    file.commit();
  }
  if (output.exports_lora("merge") || output.exports_lora("keep")) out.adapter.clear();
  return out;
}

}  // namespace amp
