#include "run/prepare/input_files.h"

#include <filesystem>

#include "base/checksum.h"
#include "base/fs.h"
#include "base/text.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "importer/adapter/adapter_file.h"
#include "importer/read/import.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"

namespace amp {

std::vector<std::pair<std::string, std::string>> input_files(const RunSpec& spec) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Setting& s : settings()) {
    if (s.resume != Resume::same_content) continue;
    const std::string path = value_text(value_of(spec, s));
    if (path.empty()) continue;
    const bool data = s.name == "train" || s.name == "val" || s.name.ends_with("_labels") || s.name.ends_with("_masks");
    if (s.name == "adapter") {
      for (const std::string& file : adapter_files(path)) out.emplace_back(s.name, file);
      continue;
    }
    const bool folder = s.name == "tokenizer" && std::filesystem::is_directory(path);
    for (const std::string& file : data ? files_named(path) : std::vector<std::string>{path})
      out.emplace_back(s.name, folder ? find_tokenizer(file) : file);
  }
  for (const std::string& file : join_files(spec.data.tables)) out.emplace_back("join", file);
  // If no tokenizer is given for texts, one may be stored beside the model.
  if (spec.data.text.tokenizer.empty() && spec.data.text.vocab.empty() && !spec.data.train.empty() &&
      data_kind(spec.data, spec.data.train) == DataKind::text) {
    if (const std::string found = tokenizer_path(spec); !found.empty()) out.emplace_back("tokenizer", found);
  }
  return out;
}

std::map<std::string, std::string> resume_record(const RunSpec& spec) {
  std::map<std::string, std::string> out = same_settings(spec);
  // The number of ranks may change if a micro-batch keeps its number of samples, counted over all ranks.
  out["batch_size"] = cat(spec.schedule.batch_size * spec.distribution.ranks);
  for (const auto& [name, path] : input_files(spec)) {
    if (name == "model") {
      out[name] = model_sha256(path);
      continue;
    }
    std::string& text = out[name];  // the checksums of several files are concatenated
    text += (text.empty() ? "" : "; ") + fingerprint(path);
  }
  return out;
}

}  // namespace amp
