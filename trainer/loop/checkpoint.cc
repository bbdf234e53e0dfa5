// Atomic checkpoint writes: a temporary folder, fsync, rename. checkpoint.h describes the order of the operations,
// which makes a crash at any point harmless. JSON and the checksum of the manifest are in manifest.cc.

#include "trainer/loop/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/safetensors.h"
#include "base/temporary.h"
#include "base/text.h"
#include "trainer/loop/manifest.h"

namespace amp {

namespace {
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kAside = ".tmp-";
constexpr const char* kPruned = "-pruned";
constexpr const char* kState = "state.safetensors";
constexpr const char* kManifest = "manifest.json";

// Returns the step in the name of a checkpoint: 120 for "checkpoint-120"; nullopt for other names.
std::optional<int64_t> step_of(const std::string& name) {
  const std::string prefix = kPrefix;
  if (name.compare(0, prefix.size(), prefix) != 0) return {};
  const std::string digits = name.substr(prefix.size());
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
  if (digits.size() > 1 && digits[0] == '0') return {};
  return std::stoll(digits);
}

std::string aside_of(const std::string& path) { return cat(path, kAside, ::getpid()); }

bool is_absent(const std::string& path) {
  struct stat s;
  return ::lstat(path.c_str(), &s) != 0 && errno == ENOENT;
}

Manifest::File write_state(const std::string& folder, const Checkpoint& c) {
  std::vector<NamedTensor> tensors;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : c.tensors) {
    tensors.push_back({name, tensor});
    bytes += tensor.bytes() + static_cast<int64_t>(name.size()) + 100;  // 100: its entry in the header
  }
  NewFile file(folder + "/" + kState, bytes);
  Crc32c crc;
  write_safetensors(
      [&](const void* p, int64_t n) {
        crc.update(p, n);
        file.write(p, n);
      },
      tensors);
  file.finish();
  return {kState, file.size(), crc.hex()};
}

void write_folder(const std::string& folder, const Checkpoint& c) {
  if (::mkdir(folder.c_str(), 0777) != 0) storage_error("cannot create folder", folder, errno);
  Manifest m;
  m.step = c.step;
  m.state = c.state;
  m.hashes = c.hashes;
  m.files.push_back(write_state(folder, c));
  const std::string text = render_manifest(m);
  NewFile file(folder + "/" + kManifest, static_cast<int64_t>(text.size()));
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.finish();
  sync_dir(folder);
}

// Returns the step in the name of a temporary checkpoint: 120 for "checkpoint-120.tmp-7"; nullopt for other names.
std::optional<int64_t> temporary_of(const std::string& name) {
  const size_t at = name.find(kAside);
  return at == std::string::npos ? std::nullopt : step_of(name.substr(0, at));
}

Manifest read_manifest(const std::string& path) {
  const std::string file = path + "/" + kManifest;
  if (!is_dir(path) || !path_exists(file)) {
    fail(Exit::checkpoint, "E_CKPT_MISSING",
         cat("'", printable(path), "' ", is_dir(path) ? "holds no manifest.json" : "is no folder"),
         "name a checkpoint-N folder that a run of this program finished writing");
  }
  return parse_manifest(read_file(file, Exit::checkpoint).text());
}

[[noreturn]] void torn(const Manifest::File& f, const std::string& fact) {
  fail(Exit::checkpoint, "E_CKPT_TORN", cat("file '", printable(f.name), "' ", fact),
       "the checkpoint is incomplete: resume from another one");
}

void compare(const Manifest::File& f, int64_t size, const std::string& crc) {
  if (size != f.size) torn(f, cat("has ", size, " bytes, ", f.size, " were written"));
  if (crc != f.crc32c) {
    fail(Exit::checkpoint, "E_CKPT_CHECKSUM",
         cat("file '", printable(f.name), "' has the checksum ", crc, ", ", f.crc32c, " was written"),
         "its bytes have changed since: resume from another checkpoint, and suspect the disk");
  }
}

void verify_file(const std::string& path, const Manifest::File& f) {
  const FileSum sum = sum_of_file(path + "/" + f.name);
  if (sum.error) torn(f, sum.error == ENOENT ? "is missing" : cat("cannot be read: ", std::strerror(sum.error)));
  compare(f, sum.size, sum.crc32c);
}
}  // namespace

std::string checkpoint_path(const std::string& dir, int64_t step) { return cat(dir, "/", kPrefix, step); }

std::vector<int64_t> list_checkpoints(const std::string& dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : list_dir(dir)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool has_temporary_checkpoints(const std::string& dir) {
  const std::vector<std::string> names = list_dir(dir);
  return std::any_of(names.begin(), names.end(), [](const std::string& n) { return temporary_of(n).has_value(); });
}

std::vector<std::string> recover_checkpoints(const std::string& dir) {
  std::vector<std::string> recovered;
  for (const std::string& name : list_dir(dir)) {  // sorted: new folders before the "-old" ones that they replace
    const std::optional<int64_t> step = temporary_of(name);
    if (!step || name.ends_with(kPruned)) continue;
    const std::string path = checkpoint_path(dir, *step), temporary = dir + "/" + name;
    if (verifies(path) || !verifies(temporary)) continue;
    replace_dir(temporary, path);
    recovered.push_back(path);
  }
  return recovered;
}

void clean_checkpoints(const std::string& dir) {
  for (const std::string& name : list_dir(dir)) {
    if (temporary_of(name)) remove_tree(dir + "/" + name);
  }
}

bool lacks_files(const std::string& path) {
  return is_absent(path + "/" + kManifest) || is_absent(path + "/" + kState);
}

// The folder is renamed first, so that a crash during the removal leaves no partial checkpoint visible. A folder in a
// lower layer of overlayfs cannot be renamed. There the manifest is removed first, because a folder without a manifest
// is not a checkpoint.
void remove_checkpoint(const std::string& path) {
  const std::string aside = aside_of(path) + kPruned;
  remove_tree(aside);
  const TemporaryPath registered(aside);  // a signal may end the process during the removal
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    if (errno != EXDEV) storage_error("cannot remove", path, errno);
    remove_tree(path + "/" + kManifest);
    return remove_tree(path);
  }
  try {
    sync_dir(std::filesystem::path(path).parent_path().string());
  } catch (const Error&) {
    // The rename may not be durable. If the files were removed now, a power cut could leave a damaged checkpoint under
    // the old name. So the checkpoint is kept and gets its old name back.
    if (::rename(aside.c_str(), path.c_str()) != 0) storage_error("cannot rename back", aside, errno);
    throw;
  }
  remove_tree(aside);
}

void prune_checkpoints(const std::string& dir, int64_t newest, const SaveOptions& o) {
  if (o.save_total_limit <= 0) return;
  std::vector<int64_t> present = list_checkpoints(dir), removable;
  for (const int64_t s : present) {
    if (s != newest && s != o.best_step) removable.push_back(s);
  }
  std::stable_partition(removable.begin(), removable.end(), [&](int64_t s) { return s > newest; });
  const int64_t excess = static_cast<int64_t>(present.size()) - o.save_total_limit;
  removable.resize(static_cast<size_t>(std::clamp<int64_t>(excess, 0, static_cast<int64_t>(removable.size()))));
  if (removable.empty()) return;
  try {
    verify_checkpoint(checkpoint_path(dir, newest));
  } catch (const Error& e) {
    fail(Exit::storage, "E_WRITE", cat("the checkpoint just written does not read back: ", e.fact()),
         "earlier checkpoints are kept; suspect the disk or the network file system");
  }
  for (const int64_t s : removable) {
    try {
      remove_checkpoint(checkpoint_path(dir, s));
    } catch (const Error& e) {  // the newest checkpoint is verified, so training continues
      if (o.warn) o.warn(e.fact());
    }
  }
}

std::string save_checkpoint(const std::string& dir, const Checkpoint& c, const SaveOptions& options) {
  const std::string path = checkpoint_path(dir, c.step), aside = aside_of(path);
  try {
    ensure_dir(dir);
    remove_tree(aside);
    const bool replaces = path_exists(path);
    try {
      {
        const TemporaryPath folder(aside), state(aside + "/" + kState), manifest(aside + "/" + kManifest);
        write_folder(aside, c);
      }
      replace_dir(aside, path);
    } catch (...) {
      try {
        if (!replaces || !verifies(aside) || verifies(path)) remove_tree(aside);
      } catch (const Error&) {  // the first failure is thrown below
      }
      throw;
    }
    try {
      remove_tree(aside);  // `aside` is now the replaced checkpoint of the same step
    } catch (const Error& e) {
      if (options.warn) options.warn(e.fact());
    }
    prune_checkpoints(dir, c.step, options);
  } catch (Error& e) {
    throw e.at(cat("while saving checkpoint ", c.step, " in '", printable(dir), "'"));
  }
  return path;
}

Checkpoint load_checkpoint(const std::string& path) {
  try {
    Manifest m = read_manifest(path);
    Checkpoint c;
    for (const Manifest::File& f : m.files) {
      const std::string file = path + "/" + f.name;
      if (!path_exists(file)) torn(f, "is missing");
      const FileBytes bytes = read_file(file, Exit::checkpoint);
      compare(f, bytes.size, crc32c(bytes.bytes.get(), bytes.size));
      if (f.name != kState) continue;
      for (NamedTensor& t : parse_safetensors(bytes, Exit::checkpoint).tensors) {
        c.tensors.emplace(std::move(t.name), std::move(t.tensor));
      }
    }
    c.step = m.step;
    c.state = std::move(m.state);
    c.hashes = std::move(m.hashes);
    return c;
  } catch (Error& e) {
    throw e.at(cat("in checkpoint '", printable(path), "'"));
  }
}

void verify_checkpoint(const std::string& path) {
  try {
    for (const Manifest::File& f : read_manifest(path).files) verify_file(path, f);
  } catch (Error& e) {
    throw e.at(cat("in checkpoint '", printable(path), "'"));
  }
}

bool verifies(const std::string& path) {
  try {
    verify_checkpoint(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_checkpoint(const std::string& path) {
  try {
    read_manifest(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

static Latest find_usable(const std::string& dir) {
  Latest out;
  const std::vector<int64_t> steps = list_checkpoints(dir);
  for (auto it = steps.rbegin(); it != steps.rend() && out.path.empty(); ++it) {
    const std::string path = checkpoint_path(dir, *it);
    try {
      out.checkpoint = load_checkpoint(path);
      out.path = path;
    } catch (const Error& e) {
      if (e.exit() != Exit::checkpoint) throw;
      out.skipped.push_back(cat(path, ": ", e.fact()));
    }
  }
  return out;
}

// If another run saves at the same time, it renames and removes checkpoints, perhaps all that were listed here. So if
// no listed checkpoint can be used, the search is repeated while the names change.
Latest find_latest(const std::string& dir) {
  constexpr int kTries = 50;
  for (int tries = 1;; ++tries) {
    const std::vector<std::string> names = list_dir(dir);
    Latest out = find_usable(dir);
    if (!out.path.empty() || tries == kTries || list_dir(dir) == names) return out;
  }
}

void require_same(const std::map<std::string, std::string>& saved, const std::map<std::string, std::string>& now) {
  std::string differences;
  for (const auto& [key, value] : now) {
    const auto it = saved.find(key);
    const std::string was = it == saved.end() ? "absent" : it->second;
    if (was != value) differences += cat(differences.empty() ? "" : "; ", key, " was ", was, ", is ", value);
  }
  for (const auto& [key, value] : saved) {
    if (!now.count(key)) differences += cat(differences.empty() ? "" : "; ", key, " was ", value, ", is absent");
  }
  if (!differences.empty()) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH",
         cat("the checkpoint was written by another run: ", printable(differences)),
         "resume with what it was written with, or start afresh");
  }
}

}  // namespace amp
