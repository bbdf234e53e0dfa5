// Checkpoints on file systems that cannot exchange two names (NFS, FUSE, overlayfs), and removals that fail.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/fs.h"
#include "base/temporary.h"
#include "tests/faults.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {
using Names = std::vector<std::string>;

Checkpoint sample(int64_t step, float value) {
  Checkpoint c;
  c.step = step;
  c.tensors["param/w"] = HostTensor::of<float>({2}, {value, 1});
  return c;
}

float value_of(const Checkpoint& c) { return c.tensors.at("param/w").as<float>()[0]; }

// Runs f in a child process and returns its exit status.
int in_child(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
}  // namespace

TEST_CASE("no kill loses the only checkpoint where names cannot be exchanged") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  SaveOptions one;
  one.save_total_limit = 1;
  // EINVAL: the file system cannot exchange names. EXDEV: the old checkpoint is in a lower layer of overlayfs and
  // cannot be renamed at all.
  for (const int code : {EINVAL, EXDEV}) {
    int killed = 0, recovered = 0;
    for (int k = 1;; ++k) {
      const TempDir t;
      const std::string dir = t / "checkpoints", old = checkpoint_path(dir, 4);
      save_checkpoint(dir, sample(4, 1), one);
      const int status = in_child([&] {
        int calls = 0;
        const Faults faults([&](const FileCall& c) {  // writes, syncs and renames; each is a point to be killed at
          if (c.name.ends_with("read")) return kPass;
          if (++calls == k) return kKill;
          return c.name == "renameat2" || (code == EXDEV && c.path == old) ? code : kPass;
        });
        save_checkpoint(dir, sample(4, 2), one);
      });
      recovered += !recover_checkpoints(dir).empty();
      clean_checkpoints(dir);
      const Latest latest = find_latest(dir);
      INFO(k);
      REQUIRE(latest.checkpoint.step == 4);
      CHECK(latest.skipped.empty());
      CHECK(list_dir(dir) == Names{"checkpoint-4"});
      if (status == 0) {
        CHECK(value_of(latest.checkpoint) == 2);
        break;
      }
      REQUIRE(status == 137);
      ++killed;
    }
    CHECK(killed >= 10);
    CHECK(recovered >= 1);
  }
}

TEST_CASE("a temporary checkpoint is recovered if it is complete and none of its step verifies") {
  const TempDir t;
  const std::string dir = t.path.string();
  const auto make = [&](int64_t step, const std::string& name) {
    save_checkpoint(dir, sample(step, 1));
    if (!name.empty()) stdfs::rename(checkpoint_path(dir, step), t / name);
  };
  make(1, "checkpoint-1.tmp-7");         // a complete save
  make(2, "checkpoint-2.tmp-7");         // a torn save
  make(3, "checkpoint-3.tmp-7-pruned");  // a checkpoint that was being removed
  make(4, "checkpoint-4.tmp-7");         // a complete save beside a damaged checkpoint
  make(4, "");
  make(5, "checkpoint-5.tmp-7-old");  // a complete save beside a good checkpoint
  make(5, "");
  stdfs::resize_file(t / "checkpoint-2.tmp-7/state.safetensors", 50);
  stdfs::remove(t / "checkpoint-4/manifest.json");
  CHECK(has_temporary_checkpoints(dir));
  CHECK(recover_checkpoints(dir) == Names{checkpoint_path(dir, 1), checkpoint_path(dir, 4)});
  clean_checkpoints(dir);
  CHECK_FALSE(has_temporary_checkpoints(dir));
  CHECK(list_dir(dir) == Names{"checkpoint-1", "checkpoint-4", "checkpoint-5"});
  for (const int64_t step : {1, 4, 5}) CHECK_NOTHROW(verify_checkpoint(checkpoint_path(dir, step)));
}

TEST_CASE("an old checkpoint that cannot be removed is a warning") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  const std::string dir = t.path.string();
  std::vector<std::string> warnings;
  SaveOptions one{1, -1, [&](const std::string& why) { warnings.push_back(why); }};
  save_checkpoint(dir, sample(1, 1), one);
  {
    const Faults faults([&](const FileCall& c) { return c.name == "rename" && c.path.ends_with("-1") ? EIO : kPass; });
    save_checkpoint(dir, sample(2, 2), one);
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Matchers::ContainsSubstring("checkpoint-1': Input/output error"));
  CHECK(list_checkpoints(dir) == std::vector<int64_t>{1, 2});
  prune_checkpoints(dir, 2, one);  // as at the end of a run
  CHECK(list_checkpoints(dir) == std::vector<int64_t>{2});
}

TEST_CASE("an old checkpoint that cannot be renamed is removed") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  const std::string dir = t.path.string();
  SaveOptions one;
  one.save_total_limit = 1;
  save_checkpoint(dir, sample(1, 1), one);
  const Faults faults([&](const FileCall& c) { return c.name == "rename" && c.path.ends_with("-1") ? EXDEV : kPass; });
  save_checkpoint(dir, sample(2, 2), one);
  CHECK(list_dir(dir) == Names{"checkpoint-2"});
}

TEST_CASE("an old checkpoint whose new name cannot be made durable stays whole, and no temporary folder is left") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  SaveOptions one;
  one.save_total_limit = 1;
  for (int k = 1; k < 100; ++k) {  // the k-th fsync fails
    const TempDir t;
    const std::string dir = t / "checkpoints", old = checkpoint_path(dir, 4), recent = checkpoint_path(dir, 8);
    save_checkpoint(dir, sample(4, 1), one);
    Names warnings;
    one.warn = [&](const std::string& why) { warnings.push_back(why); };
    int calls = 0;
    bool saved = true;
    {
      const Faults faults([&](const FileCall& c) { return c.name == "fsync" && ++calls == k ? EDQUOT : kPass; });
      try {
        save_checkpoint(dir, sample(8, 2), one);
      } catch (const Error&) {
        saved = false;
      }
    }
    INFO("fsync " << k << " of " << calls << " failed; saved: " << saved);
    CHECK_FALSE(has_temporary_checkpoints(dir));
    if (path_exists(old)) CHECK(value_of(load_checkpoint(old)) == 1);
    if (saved) CHECK(value_of(load_checkpoint(recent)) == 2);
    if (saved && path_exists(old)) CHECK_FALSE(warnings.empty());
    if (calls < k) return;  // every fsync has failed once
  }
  FAIL("there is no end of calls of fsync");
}

TEST_CASE("a signal that ends a save leaves no temporary folder, and a checkpoint that can be read") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  SaveOptions one;
  one.save_total_limit = 1;
  for (int k = 1; k < 100; ++k) {  // the signal arrives at the k-th fsync
    const TempDir t;
    const std::string dir = t / "checkpoints";
    save_checkpoint(dir, sample(4, 1), one);
    const int status = in_child([&] {
      int calls = 0;
      const Faults faults([&](const FileCall& c) {
        if (c.name == "fsync" && ++calls == k) {
          remove_temporaries();
          ::_exit(140);
        }
        return kPass;
      });
      save_checkpoint(dir, sample(8, 2), one);
    });
    INFO("fsync " << k);
    CHECK_FALSE(has_temporary_checkpoints(dir));
    CHECK_FALSE(find_latest(dir).path.empty());
    if (status == 0) return;  // the save ended before the k-th call
    CHECK(status == 140);
  }
  FAIL("there is no end of calls of fsync");
}

TEST_CASE("a search for a checkpoint goes on while another process replaces checkpoints") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  const std::string dir = t / "checkpoints";
  SaveOptions one;
  one.save_total_limit = 1;
  save_checkpoint(dir, sample(1, 1), one);
  int64_t step = 1;
  bool busy = false;
  const Faults faults([&](const FileCall& c) {  // each of the first reads finds that the checkpoint was replaced
    if (c.name.ends_with("read") && c.path.ends_with("manifest.json") && step < 4 && !std::exchange(busy, true)) {
      ++step;
      save_checkpoint(dir, sample(step, static_cast<float>(step)), one);
      busy = false;
    }
    return kPass;
  });
  const Latest found = find_latest(dir);
  CHECK(found.path == checkpoint_path(dir, 4));
  CHECK(value_of(found.checkpoint) == 4);
}
