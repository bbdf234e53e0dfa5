// Finds the model in a folder that the user names. It may be the folder of a run, of onnxruntime-genai
// (genai_config.json) or of Optimum (model.onnx, or encoder_model.onnx and decoder_model.onnx), a repository of the
// Hugging Face hub (config.json and weights, ONNX files in onnx/), or the hub's cache. Folders of other frameworks
// cannot be opened: the error names the command that converts them.

#include "run/model/model_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "importer/read/foreign_file.h"
#include "models/architecture.h"
#include "run/folder/run_files.h"
#include "run/model/decoder_folder.h"
#include "run/spec/spec.h"

namespace amp {

namespace {
namespace fs = std::filesystem;

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::vector<std::string> files_ending(const std::string& folder, const std::string& ending) {
  std::vector<std::string> out;
  for (const std::string& name : list_dir(folder)) {
    if (name.ends_with(ending) && is_file(in(folder, name))) out.push_back(in(folder, name));
  }
  return out;
}

// Quotes text for a shell, in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : printable(text)) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Returns snapshots/COMMIT of a folder of the Hugging Face cache: the commit that refs/main names, else the only one.
// Returns "" for other folders.
std::string cached_snapshot(const std::string& folder) {
  const std::string snapshots = in(folder, "snapshots");
  if (!is_dir(snapshots)) return {};
  const std::string main = in(folder, "refs/main");
  if (is_file(main)) {
    std::string commit(read_file(main).text());
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
    if (commit.find('/') == std::string::npos && is_dir(in(snapshots, commit))) return in(snapshots, commit);
  }
  const std::vector<std::string> commits = list_dir(snapshots);
  return commits.size() == 1 ? in(snapshots, commits[0]) : std::string();
}

std::string model_type_of(const std::string& folder) {
  const std::string path = in(folder, "config.json");
  if (!is_file(path)) return {};
  const nlohmann::json config = parse_json(read_file(path).text());
  if (!config.is_object()) return {};
  for (const char* key : {"model_type", "architecture"}) {  // model_type: transformers; architecture: timm
    const auto it = config.find(key);
    if (it != config.end() && it->is_string()) return it->get<std::string>();
  }
  return {};
}

bool is_built_here(const std::string& type) {
  return std::any_of(architectures().begin(), architectures().end(), [&](const Architecture* a) {
    return a->name == type || std::find(a->other_types.begin(), a->other_types.end(), type) != a->other_types.end();
  });
}

struct Advice {
  std::string fact, hint;
};

// Returns the error text and hint for a folder with config.json and weights, but without an ONNX file.
Advice advice_for_checkpoint(const std::string& folder, const std::string& type) {
  const bool safe = !files_ending(folder, ".safetensors").empty();
  const std::string kind = cat("is a checkpoint of a '", printable(type), "' model, without an ONNX file");
  const std::string optimum = cat("`optimum-cli export onnx --model ", quoted(folder), " ", quoted(in(folder, "onnx")),
                                  "` (pip install optimum-onnx) exports it");
  if (!is_built_here(type)) return {kind, optimum};
  if (!safe)
    return {cat(kind, " and without .safetensors"),
            cat("save the weights with save_pretrained(..., safe_serialization=True) for `convert`; or ", optimum)};
  return {kind, cat("`onnx-amp-finetune convert ", quoted(folder), " --out ", quoted(in(folder, "model.onnx")),
                    "` makes one of it")};
}

Advice advice_for(const std::string& folder) {
  const bool peft = is_file(in(folder, "adapter_config.json"));
  if (peft || !files_ending(folder, ".onnx_adapter").empty())
    return {
        cat("holds an adapter (", peft ? "PEFT" : ".onnx_adapter", "), not a whole model"),
        cat("name its base as the model, and this folder with `adapter`: `eval BASE --adapter ", quoted(folder), "`")};
  if (is_run_folder(folder))
    return {"is a run's folder and holds no model.onnx",
            cat("`export ", printable(folder), " --out FILE` writes the weights of a run that was stopped")};
  const std::string type = model_type_of(folder);
  const bool weights = !files_ending(folder, ".safetensors").empty() || !files_ending(folder, ".bin").empty() ||
                       !files_ending(folder, ".h5").empty() || !files_ending(folder, ".msgpack").empty();
  if (!type.empty() && weights) return advice_for_checkpoint(folder, type);
  if (is_file(in(folder, "saved_model.pb")))
    return {"is a TensorFlow SavedModel",
            cat("`python -m tf2onnx.convert --saved-model ", quoted(folder), " --output model.onnx` converts it")};
  if (is_file(in(folder, "Manifest.json")) && is_dir(in(folder, "Data")))
    return {"is a Core ML package", "export the model that it was made from to ONNX"};
  constexpr size_t kLooked = 20;
  const std::vector<std::string> names = list_dir(folder);
  for (size_t i = 0; i < std::min(kLooked, names.size()); ++i) {
    const std::string path = in(folder, names[i]);
    if (!is_file(path)) continue;
    const std::optional<ForeignFile> foreign = recognize_file(path);
    if (foreign && foreign->is_model)
      return {cat("holds no .onnx file; '", printable(names[i]), "' is ", foreign->kind), foreign->advice};
  }
  return {"holds no model.onnx and no other .onnx file", "name a model file, or a folder with one"};
}
}  // namespace

std::string model_file(const std::string& path, const Log& log) {
  if (!is_dir(path)) return path;
  const std::string snapshot = cached_snapshot(path);
  const std::string folder = snapshot.empty() ? path : snapshot;
  const auto took = [&](const std::string& file) {
    log.info(cat("model: ", printable(file)));
    return file;
  };
  if (const std::string decoder = decoder_folder(folder).file; !decoder.empty()) {
    if (is_file(in(folder, decoder))) return took(in(folder, decoder));
    fail(Exit::usage, "E_RUN",
         cat("'", printable(folder), "/genai_config.json' names the model '", printable(decoder),
             "', and there is no such file"),
         "copy the file into the folder, or name the model's .onnx file");
  }
  for (const char* name : {"model.onnx", "onnx/model.onnx"}) {
    if (is_file(in(folder, name))) return took(in(folder, name));
  }
  // Optimum writes the decoder without a cache next to other files. If an encoder is among them, the decoder is only a
  // part of the model.
  for (const char* name : {"decoder_model.onnx", "onnx/decoder_model.onnx"}) {
    const std::string encoder = in(folder, name[0] == 'o' ? "onnx/encoder_model.onnx" : "encoder_model.onnx");
    if (is_file(in(folder, name)) && !is_file(encoder)) return took(in(folder, name));
  }
  std::vector<std::string> found = files_ending(folder, ".onnx");
  if (found.empty()) found = files_ending(in(folder, "onnx"), ".onnx");
  if (found.size() == 1) return took(found[0]);
  if (found.empty()) {
    const Advice a = advice_for(folder);
    fail(Exit::usage, "E_RUN", cat("'", printable(folder), "' ", a.fact), a.hint);
  }
  std::vector<std::string> names;
  for (const std::string& f : found) names.push_back(printable(f));
  fail(Exit::usage, "E_RUN", cat("'", printable(folder), "' holds ", found.size(), " models and no model.onnx"),
       cat("name one of them: ", join(names, ", ")));
}

RunSpec with_model_files(RunSpec spec, const Log& log) {
  spec.model.model = model_file(spec.model.model, log);
  if (spec.model.adapter == kNoAdapter) spec.model.adapter.clear();
  if (!spec.objective.teacher.empty()) spec.objective.teacher = model_file(spec.objective.teacher, log);
  constexpr int64_t kUsual = 1024;  // TRL's default length of conversations
  if (const int64_t context = context_length(spec.model.model); context > 1)
    spec.data.text.max_seq_len.suggest(std::min(context, kUsual));
  return spec;
}

}  // namespace amp
