// export.safetensors: a batch of inputs as tensors, and as metadata the settings, the facts about the data and the
// model's metadata in JSON. Settings are stored by name with a list of those that the user gave; the reader must
// accept records of earlier versions (kRecordFormat).
#include "run/prepare/export_record.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fs.h"
#include "base/number_text.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "run/data/features.h"
#include "run/folder/run_files.h"
#include "run/model/model_metadata.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"

namespace amp {

namespace {
using nlohmann::json;
constexpr const char* kRecordFormat = "onnx-amp-finetune export 1";
const std::string kFixed = "fixed input: ";  // prefix of inputs whose value is bound

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  fail(Exit::checkpoint, "E_RUN_RECORD", cat("'", printable(path), "' cannot be read: ", why),
       "resume the run with `resume` auto: it is written again");
}

json asked_settings(const RunSpec& spec) {
  json out = json::array();
  for (const Setting& s : settings()) {
    if (has(s.jobs, Job::train) && is_set(spec, s)) out.push_back(s.name);
  }
  return out;
}

SettingValue value_like(const SettingValue& like, const json& j) {
  if (std::holds_alternative<std::vector<std::string>>(like) && j.is_number())
    return std::vector{number_text(j.get<double>())};  // this setting was a number in earlier versions
  return std::visit([&](const auto& x) -> SettingValue { return j.get<std::remove_cvref_t<decltype(x)>>(); }, like);
}

RunSpec read_settings(const json& values, const json& asked) {
  RunSpec spec;
  for (const Setting& s : settings()) {
    const auto it = values.find(s.name);
    if (it == values.end()) continue;
    const SettingValue like = value_of(spec, s);
    const bool infinite = std::holds_alternative<double>(like) && it->is_string();
    const SettingValue value = infinite ? SettingValue(std::numeric_limits<double>::infinity()) : value_like(like, *it);
    set_value(spec, s, value, std::find(asked.begin(), asked.end(), s.name) != asked.end());
  }
  return spec;
}
}  // namespace

std::map<std::string, std::string> model_record(const PreparedRun& run) {
  return to_metadata(record_of(run.spec, run.config.objective, run.ready.task, run.facts.kind(),
                               run.data.train->input_ranges(), run.features.get()));
}

void write_export_record(const std::string& folder, const PreparedRun& run, const std::vector<std::string>& trained,
                         const Tensors& tensors) {
  std::vector<NamedTensor> batch;
  for (const int v : needed_inputs(run.ready.model.graph, run.ready.outputs)) {
    const std::string& name = run.ready.model.graph.values[static_cast<size_t>(v)].name;
    if (const auto it = tensors.find(name); it != tensors.end()) batch.push_back({name, it->second});
    const HostTensor& fixed = run.ready.model.graph.value(v).data;
    if (fixed) batch.push_back({kFixed + name, fixed});
  }
  RunSpec spec = run.spec;
  spec.data.tables = with_absolute_joins(spec.data.tables);
  // The path is recorded because the model may later be used from another folder, with other files beside it.
  if (run.facts.text && spec.data.text.tokenizer.empty() && spec.data.text.vocab.empty())
    spec.data.text.tokenizer = tokenizer_path(spec);
  for (std::string* path :
       {&spec.model.model, &spec.data.text.tokenizer, &spec.data.text.vocab, &spec.data.language.chat_template}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  const DataFacts& f = run.facts;
  const json facts = {
      {"text", f.text},          {"images", f.images},         {"features", f.features},        {"sides", f.sides},
      {"task", name_of(f.task)}, {"classes", f.classes.names}, {"class_source", f.class_source}};
  const json record = {{"settings", json::parse(settings_json(spec))},
                       {"asked", asked_settings(spec)},
                       {"data", facts},
                       {"metadata", model_record(run)},
                       {"trained", trained}};
  write_safetensors(
      folder + "/" + kExportRecord, batch,
      {{"format", kRecordFormat}, {"record", record.dump(-1, ' ', false, json::error_handler_t::replace)}});
}

ExportRecord read_export_record(const std::string& folder) {
  const std::string path = folder + "/" + kExportRecord;
  if (!path_exists(path)) {
    fail(Exit::usage, "E_RUN", cat("'", printable(folder), "' holds no ", kExportRecord),
         "name a run's `output_dir`, or a model file; a run of an earlier version writes it when it is resumed");
  }
  const SafeTensors file = read_safetensors(path, Exit::checkpoint);
  const auto format = file.metadata.find("format"), text = file.metadata.find("record");
  if (format == file.metadata.end() || format->second != kRecordFormat || text == file.metadata.end())
    damaged(path, "it is no record of this version");
  ExportRecord out;
  try {
    const json j = json::parse(text->second);
    out.spec = read_settings(j.at("settings"), j.at("asked"));
    const json& data = j.at("data");
    out.facts = {data.at("text").get<bool>(),
                 data.value("images", false),
                 data.value("features", false),
                 data.at("sides").get<bool>(),
                 task_from_name(data.at("task").get<std::string>()),
                 data.at("classes").get<std::vector<std::string>>(),
                 data.value("class_source", "")};
    out.metadata = j.at("metadata").get<std::map<std::string, std::string>>();
    out.trained = j.at("trained").get<std::vector<std::string>>();
  } catch (const json::exception& e) {
    damaged(path, e.what());
  }
  for (const NamedTensor& t : file.tensors) {
    const bool fixed = t.name.starts_with(kFixed);
    (fixed ? out.fixed[t.name.substr(kFixed.size())] : out.batch[t.name]) = t.tensor;
  }
  return out;
}

}  // namespace amp
