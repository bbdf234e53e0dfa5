// create and convert: the architectures of models/ build the graph with a Net, whose weights are random (DrawnWeights)
// or read from safetensors (CheckpointWeights). The checkpoint's config.json is stored in the file's metadata, so that
// write_checkpoint() can write it back. Names of parameters are those of the checkpoint; constants have a '/'
// in their name.

#include "run/model/build.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "data/tokenizer.h"
#include "importer/read/import.h"
#include "importer/write/write.h"
#include "models/architecture.h"
#include "run/model/decoder_folder.h"
#include "run/model/model_file.h"
#include "run/model/model_metadata.h"
#include "run/model/surgery.h"

namespace amp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigKey = "huggingface_config";  // metadata key that stores config.json

// Builds the graph and writes it to `out`. sentences: a sentence-transformers folder, whose pooling is added as an
// output; empty: none.
BuiltModel build(const Architecture& a, const ModelConfig& config, Head head, WeightSource& weights,
                 const std::string& class_name, bool drawn, const std::string& out, const std::string& sentences = {},
                 const Log& log = {}) {
  Net net(std::string(a.name), weights);
  a.build(net, config, head);
  BuiltModel built{std::string(a.name), std::string(name_of(head))};
  for (const SourceValue& v : net.graph().values) {
    if (v.kind == SourceKind::parameter && v.name.find(".running_") == std::string::npos)
      built.parameters += v.data.numel();
  }
  nlohmann::json described = nlohmann::json::parse(config.dump());
  if (!class_name.empty()) described["architectures"] = {class_name};
  std::map<std::string, std::string> metadata{{kConfigKey, described.dump()}};
  if (drawn) metadata[kWeightsKey] = kDrawnWeights;
  ensure_dir(folder_of(out));
  SourceGraph graph = net.graph();
  if (!sentences.empty()) {
    for (const std::string& line : add_sentence_embedding(graph, sentences)) log.note(line);
  }
  write_model(graph, metadata, out);
  return built;
}

void say_drawn(const std::vector<std::string>& drawn, const Log& log) {
  if (drawn.empty()) return;
  log.warning(cat("the checkpoint has no ", join(drawn, ", "), ": drawn anew, to be trained"));
}

// Returns whether a tensor of a checkpoint is a buffer of a PyTorch module that inference does not need. Such buffers
// are not reported as unused.
bool needs_no_mention(const std::string& name) {
  return name.ends_with("position_ids") || name.ends_with("token_type_ids") || name.ends_with("attn.bias") ||
         name.ends_with("attn.masked_bias") || name.ends_with("rotary_emb.inv_freq") ||
         name.ends_with("num_batches_tracked");
}

// Copies the tokenizer, preprocessor and sentence-transformers files that the folder `to` does not have yet. `timm`:
// also config.json, which has the preprocessing and the class names of timm's models.
void copy_beside(const fs::path& from, const fs::path& to, const Log& log, bool timm = false) {
  std::vector<std::string> copied, names = tokenizer_files();
  names.insert(names.end(), {"chat_template.jinja", "preprocessor_config.json", "modules.json", "1_Pooling/config.json",
                             "sentence_bert_config.json", "config_sentence_transformers.json"});
  if (timm) names.emplace_back("config.json");
  for (const std::string& name : names) {
    std::error_code none;
    if (!fs::exists(from / name, none) || fs::exists(to / name, none)) continue;
    if (name.find('/') != std::string::npos) ensure_dir((to / name).parent_path());
    FileWriter file((to / name).string());
    file.write(read_file((from / name).string(), Exit::data).text());
    file.commit();
    copied.emplace_back(name);
  }
  if (!copied.empty()) log.info(cat("copied beside it: ", join(copied, ", ")));
}

}  // namespace

BuiltModel create_model(const BuildSpec& spec, const std::string& out, const Log&) {
  const Architecture& a = architecture(spec.model);
  ModelConfig config(std::string(a.config), cat("configuration of ", a.name));
  if (!spec.derived.empty()) config.override_with(spec.derived);
  if (!spec.config.empty()) {
    const bool text = spec.config.find('{') != std::string::npos;
    config.override_with(text ? spec.config : std::string(read_file(spec.config).text()));
  }
  DrawnWeights weights(spec.seed);
  return build(a, config, spec.head.empty() ? a.heads.front() : head_from_name(a, spec.head), weights, "", true, out);
}

BuiltModel convert_checkpoint(const BuildSpec& spec, const std::string& out, const Log& log) {
  const std::string path = (fs::path(spec.model) / "config.json").string();
  ModelConfig config(std::string(read_file(path, Exit::data).text()), path);
  const bool timm = !config.has("model_type") &&
                    config.has("architecture");  // timm's config.json has only the architecture and preprocessing
  if (!timm && !config.has("model_type")) config.refuse("model_type", "is missing");
  const Architecture& a = architecture(config.text(timm ? "architecture" : "model_type", ""));
  if (timm) config.complete_with(std::string(a.config));
  const std::vector<std::string> classes = config.texts("architectures");
  if (!timm && spec.head.empty() && classes.empty())
    config.refuse("architectures", "is missing", "say `model_head`, as in `model_head` sequence_classification");
  const Head head = !spec.head.empty() ? head_from_name(a, spec.head)
                    : timm             ? a.heads.front()
                                       : head_of_class(a, classes.front());
  CheckpointWeights weights(spec.model, std::string(a.prefix));
  for (const std::string_view begin : a.head_weights) weights.draw(std::string(begin), spec.seed);
  BuiltModel built = build(a, config, head, weights, spec.head.empty() && !timm ? classes.front() : "", false, out,
                           head == Head::none ? spec.model : std::string(), log);
  say_drawn(weights.drawn(), log);
  std::vector<std::string> unused = weights.unused();
  unused.erase(std::remove_if(unused.begin(), unused.end(), needs_no_mention), unused.end());
  if (!unused.empty()) log.warning(cat("tensors of the checkpoint that the model does not have: ", join(unused, ", ")));
  copy_beside(spec.model, folder_of(out), log, timm);
  return built;
}

// Replaces the checkpoint's classes by those that the model was trained on.
static nlohmann::json with_class_names(nlohmann::json config, const std::vector<std::string>& labels) {
  if (labels.empty()) return config;
  nlohmann::json ids = nlohmann::json::object(), names = nlohmann::json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    ids[std::to_string(i)] = labels[i];
    names[labels[i]] = i;
  }
  config["id2label"] = ids;
  config["label2id"] = names;
  config.erase("num_labels");  // left out, because its value follows from id2label
  return config;
}

void write_checkpoint(const std::string& model, const std::string& folder, const Log& log, const std::string& beside) {
  const Imported imported = import_model(model);
  const std::string config = model_metadata(*imported.doc, kConfigKey);
  if (config.empty()) {
    fail(Exit::usage, "E_NOT_CONVERTED", cat(model, " says nothing of a checkpoint that it was made from"),
         "only a file that convert or create wrote, trained or not, can go back");
  }
  std::vector<NamedTensor> tensors;  // names with '/' are constants of the graph, not parameters
  for (const SourceValue& v : imported.graph.values) {
    if (v.data && v.name.find('/') == std::string::npos) tensors.push_back({v.name, v.data.cast(DType::f32)});
  }
  ensure_dir(folder);
  write_safetensors((fs::path(folder) / "model.safetensors").string(), tensors, {{"format", "pt"}});
  FileWriter file((fs::path(folder) / "config.json").string());
  file.write(with_class_names(nlohmann::json::parse(config), recorded(*imported.doc).labels).dump(2) + "\n");
  file.commit();
  copy_beside(beside.empty() ? folder_of(model) : beside, folder, log);
}

}  // namespace amp
