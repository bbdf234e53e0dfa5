// Reuses files of a finished run: its tokenizer, chat template and joined tables are read from the run's export record.
// A record that cannot be read is not an error here, because the files may not be needed.
#include "run/prepare/finished_run.h"

#include <filesystem>

#include "base/fs.h"
#include "base/text.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/tokenize.h"
#include "run/folder/run_files.h"
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
  } catch (const Error&) {  // not reported here: take_tokenizer() reports it, or the model when it needs the files
  }
}
}  // namespace

namespace {
std::string folder_of(const ModelSpec& model) {
  const std::string folder = std::filesystem::path(model.model).parent_path().string();
  return folder.empty() ? "." : folder;
}
}  // namespace

RunSpec with_run_tokenizer(RunSpec spec, const Log& log) {
  if (tokenizer_path(spec).empty()) take_tokenizer(spec.data, folder_of(spec.model), log);
  return spec;
}

RunSpec with_run(RunSpec spec, const Log& log) {
  spec = with_run_tokenizer(with_model_files(std::move(spec), log), log);
  take_joins(spec.data.tables, folder_of(spec.model));
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
