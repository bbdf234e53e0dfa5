// Implements require_files_of_config(). Paths in a configuration file are relative to the current folder, like paths on
// the command line. So a run.json that is used from another folder may name files that do not exist there. The error
// then states where the files are.
#include "tools/cli/config_paths.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fs.h"
#include "base/near_path.h"
#include "base/text.h"

namespace amp::cli {

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) { return path_exists(path.string()) || !paths_matching(path.string()).empty(); }

// Returns the folder in which a run was started, as its run.json states it; "" for other files.
fs::path folder_of_run(const std::string& config) {
  std::ifstream file(config);
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, false, true);
  if (!run.is_object()) return {};
  const auto machine = run.find("machine");
  if (machine == run.end() || !machine->is_object()) return {};
  const auto folder = machine->find("started_in");
  return folder != machine->end() && folder->is_string() ? folder->get<std::string>() : "";
}

// Returns the folders in which a missing file may be, each with its description.
std::vector<std::pair<fs::path, std::string>> other_folders(const std::string& config) {
  std::error_code failed;
  const fs::path file = fs::absolute(config, failed).lexically_normal();
  std::vector<std::pair<fs::path, std::string>> out;
  if (const fs::path started = folder_of_run(config); !started.empty())
    out.emplace_back(started, "the folder where the run was started");
  out.emplace_back(file.parent_path(), cat("the folder of '", printable(file.filename().string()), "'"));
  for (fs::path up = file.parent_path(); up.has_relative_path() && out.size() < 5;) {
    up = up.parent_path();
    out.emplace_back(up, "a folder above it");
  }
  return out;
}

[[noreturn]] void refuse_missing(const Flag& flag, const std::string& origin, const std::string& path,
                                 const std::vector<std::pair<fs::path, std::string>>& others) {
  std::error_code failed;
  const fs::path here = fs::current_path(failed);
  const std::string fact = cat("--", flag.name, ": '", printable(path),
                               "' does not exist: it is a relative path, so it was looked for in the current folder, '",
                               printable(here.string()), "'");
  std::string hint = near_path_hint(path);
  for (const auto& [folder, words] : others) {
    if (folder == here || !is_there(folder / path)) continue;
    hint = cat("it exists in ", words, ": start the program in '", printable(folder.string()), "', or give --",
               flag.name, " ", printable((folder / path).lexically_normal().string()));
    break;
  }
  Error error(Exit::usage, "E_FILE_MISSING", fact, hint);
  error.at("from " + origin);
  throw error;
}

}  // namespace

void require_files_of_config(const Options& opts) {
  if (opts.config.empty()) return;
  for (const Flag& flag : flags()) {
    if (!flag.setting || flag.setting->resume != Resume::same_content || !has(flag.verbs, opts.verb)) continue;
    if (!opts.has(flag.name) || !opts.origin(flag.name).starts_with("configuration file ")) continue;
    const std::string whole = opts.str(flag.name);
    if (whole.empty() || is_there(whole)) continue;
    for (const std::string& part : flag.several_files ? split(whole, ',') : std::vector<std::string>{whole}) {
      if (part.empty() || fs::path(part).is_absolute() || is_there(part)) continue;
      // A value may be a name instead of a path, such as the model `tabular`.
      const bool file = fs::path(part).has_extension() || part.find('/') != std::string::npos;
      const auto elsewhere = [&](const auto& other) { return is_there(other.first / part); };
      const std::vector<std::pair<fs::path, std::string>> others = other_folders(opts.config);
      if (file || std::any_of(others.begin(), others.end(), elsewhere))
        refuse_missing(flag, opts.origin(flag.name), part, others);
    }
  }
}

}  // namespace amp::cli
