// Durability after a power cut. System calls of a save, an export and a replaced run are recorded. Every file and
// folder must be synced before something else depends on it, and before the command ends.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/fs.h"
#include "tests/errors.h"
#include "tests/faults.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

// Follows files below a folder. A file is volatile from a write to its fsync, a folder from a new or renamed entry to
// its fsync. Files or folders are put into place by a rename, which must not happen while they are volatile.
class PowerCut {
 public:
  explicit PowerCut(const TempDir& f) : root_(stdfs::canonical(f.path).string()) {}

  int operator()(const FileCall& c) {
    const std::string path = absolute(c.path);
    if (c.name == "write" && below(path)) {
      if (known_.insert(path).second) volatile_.insert(parent(path));
      volatile_.insert(path);
    } else if ((c.name == "fsync" || c.name == "fdatasync") && below(path)) {
      volatile_.erase(path);
      moved_into_.erase(path);
      synced.push_back(stdfs::path(path).filename().string());
    } else if (c.name.starts_with("rename")) {
      renamed(path, absolute(c.to));
    }
    return kPass;
  }

  // Returns the existing files and folders that could still be lost. Excludes the file that names a lock's holder,
  // which may be lost.
  Names left() const {
    Names out;
    for (const std::string& path : volatile_) {
      if (path_exists(path) && !path.ends_with("/.lock"))
        out.push_back(path == root_ ? "." : path.substr(root_.size() + 1));
    }
    return out;
  }
  int count(const std::string& name) const { return static_cast<int>(std::count(synced.begin(), synced.end(), name)); }

  Names synced;     // names of files and folders, in the order of their fsyncs
  Names too_early;  // renames before a sync: "FROM -> TO: VOLATILE"

 private:
  static std::string absolute(const std::string& path) {
    if (path.empty()) return path;
    const stdfs::path p(path);
    return (stdfs::weakly_canonical(p.parent_path()) / p.filename()).string();
  }
  static std::string parent(const std::string& path) { return stdfs::path(path).parent_path().string(); }
  static bool in(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }
  bool below(const std::string& path) const { return in(path, root_); }

  void renamed(const std::string& from, const std::string& to) {
    // A probe file is removed at once.
    if (!below(from) || stdfs::path(from).filename().string().starts_with(".probe-")) return;
    const bool repeated = from == from_ && to == to_;  // rename() failed; a call of renameat2() follows
    from_ = from;
    to_ = to;
    for (const std::string& path : volatile_) {
      if (in(path, from)) too_early.push_back(from + " -> " + to + ": " + path);
    }
    // Unless renameat2() only repeats a failed rename(), this rename may depend on the earlier renames. These must
    // already be durable.
    if (!repeated) {
      for (const std::string& path : moved_into_) too_early.push_back(from + " -> " + to + ": renames in " + path);
    }
    std::set<std::string> known;
    for (const std::string& path : known_) known.insert(in(path, from) ? to + path.substr(from.size()) : path);
    known_ = std::move(known);
    volatile_.insert(parent(to));
    moved_into_.insert(parent(to));
  }

  std::string root_, from_, to_;
  std::set<std::string> known_, volatile_, moved_into_;  // moved_into_: folders with renames that are not durable
};

template <class F>
PowerCut traced(const TempDir& f, F&& body) {
  PowerCut power(f);
  const Faults faults([&](const FileCall& c) { return power(c); });
  body();
  return power;
}

void save(const std::string& dir, int64_t step, const SaveOptions& options = {}) {
  Checkpoint c;
  c.step = step;
  c.tensors["w"] = HostTensor::of<float>({3}, {1, 2, 3});
  save_checkpoint(dir, c, options);
}

std::vector<std::string> train(const TempDir& f, const std::vector<std::string>& more) {
  const std::string entry = test_data("zoo/lenet_relu_dyn18");
  std::vector<std::string> words = {entry + "/model.onnx",
                                    "--train",
                                    entry + "/batch.safetensors",
                                    "--loss",
                                    "cross_entropy",
                                    "--device",
                                    "cpu",
                                    "--quiet",
                                    "--max_steps",
                                    "2",
                                    "--save_steps",
                                    "1",
                                    "--output_dir",
                                    f / "run"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("a save syncs its files, its folder and the folder above, in this order", "[durability]") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir f;
  const std::string dir = f / "checkpoints";
  const auto aside = [](int64_t step) { return cat("checkpoint-", step, ".tmp-", ::getpid()); };
  const Names first = {stdfs::canonical(f.path).filename().string(), "state.safetensors", "manifest.json", aside(1),
                       "checkpoints"};
  const PowerCut fresh = traced(f, [&] { save(dir, 1); });
  CHECK(fresh.synced == first);
  CHECK(fresh.left().empty());
  CHECK(fresh.too_early.empty());
  // A second checkpoint of the same step is saved. After the exchange, the old checkpoint is removed.
  const PowerCut replaced = traced(f, [&] { save(dir, 1); });
  CHECK(replaced.synced == Names{"state.safetensors", "manifest.json", aside(1), "checkpoints", "checkpoints"});
  CHECK(replaced.too_early.empty());
  // An old checkpoint is renamed, and then removed, after the new one is in place.
  const PowerCut pruned = traced(f, [&] { save(dir, 2, {.save_total_limit = 1}); });
  CHECK(pruned.synced ==
        Names{"state.safetensors", "manifest.json", aside(2), "checkpoints", "checkpoints", "checkpoints"});
  CHECK(pruned.left().empty());
  CHECK(pruned.too_early.empty());
  CHECK(list_checkpoints(dir) == std::vector<int64_t>{2});
}

TEST_CASE("a run, its export, and the run that replaces it survive a power cut", "[durability]") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir f;
  const PowerCut whole = traced(f, [&] { must_run(train(f, {})); });
  CHECK(whole.left() == Names{});
  CHECK(whole.too_early == Names{});
  CHECK(whole.count("state.safetensors") == 2);
  CHECK(whole.count("manifest.json") == 2);
  const PowerCut exported = traced(f, [&] { must_run({"export", f / "run", "--out", f / "x.onnx", "--quiet"}); });
  CHECK(exported.left() == Names{});
  CHECK(exported.too_early == Names{});
  CHECK(exported.synced == Names{cat("x.onnx.tmp-", ::getpid()), stdfs::canonical(f.path).filename().string()});
  const PowerCut replaced = traced(f, [&] { must_run(train(f, {"--overwrite", "--seed", "7"})); });
  CHECK(replaced.left() == Names{});
  CHECK(replaced.too_early == Names{});
  CHECK(replaced.count("state.safetensors") == 2);
}
