// Reads modules.json and the pooling configuration of sentence-transformers, both formats of pooling modes: one flag
// per mode, and since version 6 `pooling_mode` with a name or a list. Several modes are concatenated in the order of
// the library. Dense and other modules are refused, because the embedding would differ from the library's.

#include "run/model/sentence_modules.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/text.h"

namespace amp {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void refuse_modules(const std::string& file, const std::string& why) {
  fail(Exit::unsupported, "E_POOLING", cat("'", printable(file), "' ", why),
       "`pooling` mean, or another, sets these files aside");
}

json read_sentence_file(const std::string& path) {
  json j = parse_json(read_file(path, Exit::data).text());
  if (j.is_discarded()) fail(Exit::data, "E_POOLING_JSON", cat("'", printable(path), "' is no JSON"), "fetch it again");
  return j;
}

std::string named_mode(const std::string& file, const json& name) {
  for (const auto& [theirs, ours] : {std::pair{"cls", "cls"},
                                     {"max", "max"},
                                     {"mean", "mean"},
                                     {"mean_sqrt_len_tokens", "mean_sqrt_len"},
                                     {"weightedmean", "weighted_mean"},
                                     {"lasttoken", "last"}}) {
    if (name == theirs) return ours;
  }
  refuse_modules(file, cat("asks for the pooling ", printable(name.dump()), ", which is not built"));
}

// Returns the pooling modes of a file, in the order in which sentence-transformers concatenates them.
std::string modes_of(const std::string& file) {
  const json config = read_sentence_file(file);
  if (!config.is_object()) refuse_modules(file, "is no JSON object");
  std::vector<std::string> modes;
  if (const auto mode = config.find("pooling_mode"); mode != config.end()) {  // since version 6: a name, or several
    for (const json& name : mode->is_array() ? *mode : json::array({*mode})) modes.push_back(named_mode(file, name));
    if (!modes.empty()) return join(modes, "+");
  }
  for (const auto& [key, mode] : {std::pair{"pooling_mode_cls_token", "cls"},
                                  {"pooling_mode_max_tokens", "max"},
                                  {"pooling_mode_mean_tokens", "mean"},
                                  {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"},
                                  {"pooling_mode_weightedmean_tokens", "weighted_mean"},
                                  {"pooling_mode_lasttoken", "last"}}) {
    const auto flag = config.find(key);
    if (flag != config.end() && flag->is_boolean() && flag->get<bool>()) modes.emplace_back(mode);
  }
  return modes.empty() ? "mean" : join(modes, "+");  // the default of sentence-transformers
}

std::string text_at(const json& j, const char* key) {
  const auto at = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && at != j.end() && at->is_string() ? at->get<std::string>() : std::string();
}

SentencePooling read_modules(const fs::path& folder) {
  const std::string file = (folder / "modules.json").string();
  const json modules = read_sentence_file(file);
  SentencePooling out;
  for (const json& m : modules.is_array() ? modules : json::array()) {
    const std::string type = text_at(m, "type"), name = type.substr(type.rfind('.') + 1);
    if (name == "Transformer" || name == "Dropout") continue;
    if (name == "Pooling" && out.modes.empty()) {
      out.file = (folder / text_at(m, "path") / "config.json").string();
      if (!path_exists(out.file)) refuse_modules(file, cat("names '", printable(out.file), "', which is not there"));
      out.modes = modes_of(out.file);
    } else if (name == "Normalize" && !out.modes.empty()) {
      out.normalize = true;
    } else {
      refuse_modules(file, cat("asks for the module ", printable(type), ", which is not built"));
    }
  }
  return out;
}

}  // namespace

std::optional<SentencePooling> sentence_pooling(const std::string& given) {
  const fs::path folder = given.empty() ? fs::path(".") : fs::path(given);
  std::vector<fs::path> places{folder};
  if (fs::absolute(folder).filename() == "onnx") places.push_back(folder / "..");
  for (const fs::path& place : places) {
    if (!path_exists((place / "modules.json").string())) continue;
    SentencePooling out = read_modules(place);
    if (!out.modes.empty()) return out;
  }
  return std::nullopt;
}

}  // namespace amp
