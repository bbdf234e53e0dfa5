// Implements note_repeated_files(). Two paths name the same file if device and inode are equal, as with symbolic and
// hard links. If a path cannot be resolved, the reader reports the error.
#include "run/data/repeated_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/text_file.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

namespace fs = std::filesystem;

using FileId = std::pair<dev_t, ino_t>;
struct NamedFile {
  std::string name;  // the name that the user wrote or that a pattern matched
  fs::path place;    // absolute, without links
  FileId id;
};

std::vector<NamedFile> files_of(const std::string& names) {
  std::vector<NamedFile> out;
  std::vector<std::string> found;
  try {
    found = files_named(names);
  } catch (const Error&) {
    return out;
  }
  for (const std::string& name : found) {
    std::error_code failed;
    struct stat s = {};
    fs::path place = fs::canonical(name, failed);
    if (!failed && ::stat(name.c_str(), &s) == 0) out.push_back({name, std::move(place), {s.st_dev, s.st_ino}});
  }
  return out;
}

// Formats a name: "'a.csv'", or for a repeated file "'link.csv' (the same file as 'a.csv')".
std::string named_as(const NamedFile& file, const std::string& first) {
  return cat("'", printable(file.name), "'",
             file.name == first ? std::string() : cat(" (the same as '", printable(first), "')"));
}

// Logs the repetitions within one setting. Returns each file once, under its first name.
std::map<FileId, NamedFile> note_within(const char* setting, const std::vector<NamedFile>& files, const char* effect,
                                        const Log& log) {
  std::map<FileId, NamedFile> first;
  std::map<FileId, int64_t> times;
  for (const NamedFile& f : files) {
    first.emplace(f.id, f);
    if (++times[f.id] == 2)
      log.note(cat("`", setting, "` names ", named_as(f, first.at(f.id).name), " more than once: ", effect));
  }
  return first;
}

bool is_inside(const fs::path& place, const fs::path& folder) {
  const auto differs = std::mismatch(folder.begin(), folder.end(), place.begin(), place.end());
  return differs.first == folder.end() && place != folder;
}

}  // namespace

void note_repeated_files(const RunSpec& spec, const Log& log) {
  const auto trained =
      note_within("train", files_of(spec.data.train), "its rows are trained as often in each epoch", log);
  const auto evaluated = note_within("val", files_of(spec.data.val), "its rows count as often in the metrics", log);
  for (const auto& [id, val] : evaluated) {
    const auto same = trained.find(id);
    if (same != trained.end()) {
      log.note(cat("`val` names ", named_as(val, same->second.name),
                   ", on which the model is trained: the metrics do not show how well it does on other data"));
      continue;
    }
    for (const auto& [other, train] : trained) {
      if (is_inside(val.place, train.place))
        log.note(cat("`val` '", printable(val.name), "' is inside '", printable(train.name),
                     "' of `train`: the model may be trained on the data that it is evaluated on"));
      if (is_inside(train.place, val.place))
        log.note(cat("`train` '", printable(train.name), "' is inside '", printable(val.name),
                     "' of `val`: the model may be evaluated on the data that it is trained on"));
    }
  }
}

}  // namespace amp
