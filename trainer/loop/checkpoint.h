// Checkpoints. A folder "checkpoint-N" contains state.safetensors (every tensor that a resumed run needs) and
// manifest.json: format version, step, size and CRC-32C of each file, hashes of the run's inputs and settings, and the
// caller's JSON state. The manifest ends with its own checksum.
//
// After a crash, kill or full disk at any point, earlier checkpoints are usable and no partial one is visible:
//   "checkpoint-N.tmp-<pid>/" -> state, fsync -> manifest last, fsync -> fsync of the folder -> rename to
//   "checkpoint-N" -> fsync of the parent -> read back and verified -> only then old ones are pruned.
// Where names cannot be exchanged, replacing "checkpoint-N" leaves a moment with complete temporary folders only.
// recover_checkpoints() renames such a folder back. Pruned checkpoints have another suffix and are not recovered.
// The latest checkpoint is found by listing the folder; there is no pointer file that could be stale. Only one process
// writes: the one that holds the DirLock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct Checkpoint {
  int64_t step = 0;                           // N: completed attempts of optimizer steps
  std::map<std::string, HostTensor> tensors;  // "param/NAME", "m/NAME", ...
  std::string state = "{}";                   // a JSON object: scaler, counters, sampler, best metric (numbers finite)
  std::map<std::string, std::string> hashes;  // "model", "config", ...: must be equal to resume
};

struct SaveOptions {
  int64_t save_total_limit = 2;  // number of checkpoints to keep; 0: all. The best one is kept even beyond the limit
  int64_t best_step = -1;        // step of the best checkpoint; -1: none
  std::function<void(const std::string&)> warn = nullptr;  // called with the reason if a checkpoint cannot be removed
};

// Writes a checkpoint and returns its folder. Fails with Exit::storage and then leaves `dir` unchanged. Replaces a
// checkpoint of the same step. Prunes checkpoints of later steps first: they are from before the run was resumed at an
// earlier step.
std::string save_checkpoint(const std::string& dir, const Checkpoint& checkpoint, const SaveOptions& options = {});
// Removes checkpoints beyond the limit, as save_checkpoint() does; `newest` is verified first and kept.
void prune_checkpoints(const std::string& dir, int64_t newest, const SaveOptions& options);
// Removes a checkpoint durably; a missing one is not an error. If this fails, `path` is still whole, or a temporary
// folder is left that clean_checkpoints() removes.
void remove_checkpoint(const std::string& path);
bool lacks_files(const std::string& path);  // true if a removal was interrupted, which leaves a part of the files

// Verifies all files before it returns. Exit::checkpoint: E_CKPT_MISSING, E_CKPT_MANIFEST (damaged), E_CKPT_VERSION
// (from a newer program), E_CKPT_TORN (a file is missing or has another size), E_CKPT_CHECKSUM.
Checkpoint load_checkpoint(const std::string& path);
void verify_checkpoint(const std::string& path);  // throws the errors of load_checkpoint(), without loading tensors
bool verifies(const std::string& path);           // false where verify_checkpoint() fails
bool is_checkpoint(const std::string& path);      // true if its manifest is valid; files are not read

struct Latest {
  std::string path;  // empty: there is no usable checkpoint
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // "PATH: reason": newer, damaged checkpoints, reported as W_CKPT_FALLBACK
};
Latest find_latest(const std::string& dir);  // the newest checkpoint that loads without an error

// Returns the steps of all checkpoints, ascending; includes damaged ones.
std::vector<int64_t> list_checkpoints(const std::string& dir);
std::string checkpoint_path(const std::string& dir, int64_t step);
// recover_checkpoints() and clean_checkpoints() are called when a run starts, and require the DirLock.
// recover_checkpoints() renames a valid temporary folder to the checkpoint that it replaces, unless that is valid too.
// It returns the new paths. clean_checkpoints() removes temporary folders.
std::vector<std::string> recover_checkpoints(const std::string& dir);
void clean_checkpoints(const std::string& dir);
bool has_temporary_checkpoints(const std::string& dir);

// Fails with E_CKPT_MISMATCH, naming every entry that differs between a checkpoint's hashes and this run's.
void require_same(const std::map<std::string, std::string>& saved, const std::map<std::string, std::string>& now);

}  // namespace amp
