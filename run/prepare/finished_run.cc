// Reuses files of a finished run. The run's export record names its tokenizer, chat template and joined tables. It also
// names the form of its adapters: with slots, model.onnx by itself is the untrained base; merged, it holds the adapter.
// A record that cannot be read is not an error here, because the files may not be needed.
#include "run/prepare/finished_run.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "importer/adapter/adapter_file.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/tokenize.h"
#include "run/folder/run_files.h"
#include "run/model/decoder_folder.h"
#include "run/model/model_file.h"
#include "run/prepare/export_record.h"
#include "run/spec/spec.h"

namespace amp {

namespace {
// Takes the tokenizer from the record of the run in `folder`, if there is a readable one.
void take_tokenizer(DataSpec& data, const std::string& folder, const Log& log) {
  if (!path_exists(folder + "/" + kExportRecord)) return;
  try {
    const DataSpec trained = read_export_record(folder).spec.data;
    const std::string& path = trained.text.tokenizer.empty() ? trained.text.vocab : trained.text.tokenizer;
    if (path.empty() || !path_exists(path)) return;
    (trained.text.tokenizer.empty() ? data.text.vocab : data.text.tokenizer) = path;
    if (data.language.chat_template.empty() && path_exists(trained.language.chat_template))
      data.language.chat_template = trained.language.chat_template;
    log.info(cat("tokenizer of the run: ", printable(path)));
  } catch (const Error& e) {
    log.detail(cat("the run's record is not read: ", e.fact()));
  }
}

// Takes the joined files of the run's training table, if all of them still exist.
void take_joins(TableSpec& tables, const std::string& folder) {
  if (!path_exists(folder + "/" + kExportRecord)) return;
  try {
    const RunSpec trained = read_export_record(folder).spec;
    for (const std::string& file : join_files(trained.data.tables)) {
      if (!path_exists(file)) return;
    }
    tables.join.suggest(*trained.data.tables.join);
  } catch (const Error&) {  // not reported here, because take_tokenizer() reads the same record
  }
}
}  // namespace

namespace {
namespace fs = std::filesystem;

// Returns whether the run in `folder` exports one of the forms of `lora_export`. False without a readable record.
bool exports(const std::string& folder, std::initializer_list<const char*> forms) {
  if (!path_exists(folder + "/" + kExportRecord)) return false;
  try {
    const OutputSpec output = read_export_record(folder).spec.output;
    return std::any_of(forms.begin(), forms.end(), [&](const char* form) { return output.exports_lora(form); });
  } catch (const Error&) {  // not reported here, because take_tokenizer() reads the same record
    return false;
  }
}

// Returns the adapter file that was exported next to a base with slots; empty if there is none.
std::string adapter_beside(const std::string& model) {
  const std::string adapter = fs::path(model).replace_extension(".onnx_adapter").string();
  return path_exists(adapter) && path_exists(slots_file(model)) ? adapter : std::string();
}

// Chooses the adapter of a run that exported slots, if the user named the run's folder. A user who names the file may
// mean the base.
void choose_adapter(ModelSpec& model, bool by_folder, const Log& log) {
  const std::string beside = adapter_beside(model.model);
  if (!model.adapter.empty() || beside.empty()) return;
  if (!by_folder || !exports(folder_of(model.model), {"slots"})) return note_adapter_beside(model, log);
  model.adapter = beside;
  log.note("the run's model is its base with slots, and the adapter beside it is applied (`adapter` none: the base)");
}
}  // namespace

void note_adapter_beside(const ModelSpec& model, const Log& log) {
  const std::string beside = adapter_beside(model.model);
  if (!model.adapter.empty() || beside.empty()) return;
  log.note(cat("the model is a base with slots, and the adapter beside it is not applied (`adapter` ",
               printable(beside), " applies it)"));
}

void refuse_merged_adapter(const ModelSpec& model) {
  if (model.adapter.empty()) return;
  const std::string folder = folder_of(model.model);
  std::error_code error;
  const bool same = fs::equivalent(folder, folder_of(adapter_files(model.adapter).front()), error);
  if (same && fs::path(model.model).filename() == "model.onnx" && exports(folder, {"merge", "keep"}))
    fail(Exit::usage, "E_ADAPTER_PATH",
         cat("'", printable(model.model), "' holds the adapter '", printable(model.adapter),
             "' already: the run exported both"),
         "leave `adapter` out, or name the base that the run trained as the model");
}

RunSpec with_run_tokenizer(RunSpec spec, const Log& log) {
  if (tokenizer_path(spec).empty()) take_tokenizer(spec.data, folder_of(spec.model.model), log);
  return spec;
}

RunSpec with_run(RunSpec spec, const Log& log) {
  const bool by_folder = is_run_folder(spec.model.model), none = spec.model.adapter == kNoAdapter;
  spec = with_run_tokenizer(with_model_files(std::move(spec), log), log);
  refuse_merged_adapter(spec.model);
  if (!none) choose_adapter(spec.model, by_folder, log);
  take_joins(spec.data.tables, folder_of(spec.model.model));
  return spec;
}

void check_tokenizer(const RunSpec& spec, const ModelRecord& record, const Log& log) {
  const auto trained = record.preprocessing.find("tokenizer_sum");
  if (trained == record.preprocessing.end() || trained->second.size() != 1 || tokenizer_path(spec).empty()) return;
  const std::string now = tokenizer_sum(spec);
  if (now != trained->second[0])
    log.warning(cat("W_TOKENIZER: '", printable(tokenizer_path(spec)), "' has ", now,
                    ", the tokenizer that the model was trained with ", printable(trained->second[0]),
                    ": is it the same vocabulary?"));
}

}  // namespace amp
