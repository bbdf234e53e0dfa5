// Checkpoints: a folder "checkpoint-N" holding state.safetensors (every tensor that a resumed run needs) and
// manifest.json (format version, step, each file with size and CRC-32C, hashes of what the run was made of, the
// caller's JSON state), the manifest ending in its own checksum.
//
// A crash, kill or full disk at any point leaves every earlier checkpoint usable and no half-visible one:
//   "checkpoint-N.tmp-<pid>/" -> state, fsync -> manifest last, fsync -> fsync of the folder -> rename to
//   "checkpoint-N" -> fsync of the parent -> read back and verified -> only then old ones are pruned.
// The latest is found by looking, never by a pointer that could lie. Written by one process that holds the DirLock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct Checkpoint {
  int64_t step = 0;                           // N: attempted optimizer steps done
  std::map<std::string, HostTensor> tensors;  // "param/NAME", "m/NAME", ...
  std::string state = "{}";                   // a JSON object: scaler, counters, sampler, best metric (numbers finite)
  std::map<std::string, std::string> hashes;  // "model", "config", ...: what must be the same to resume
};

struct SaveOptions {
  int64_t save_total_limit = 2;  // how many to keep; 0: all. The best one is kept beyond the limit
  int64_t best_step = -1;        // step of the best checkpoint; -1: none
};

// Returns the checkpoint's folder. A failure is Exit::storage and leaves the folder as it was. A checkpoint of the same
// step is replaced. Pruned first are those of steps after this one: this run went back before them.
std::string save_checkpoint(const std::string& dir, const Checkpoint& checkpoint, const SaveOptions& options = {});

// Everything is checked before anything is returned. Exit::checkpoint: E_CKPT_MISSING, E_CKPT_MANIFEST (damaged),
// E_CKPT_VERSION (of a newer program), E_CKPT_TORN (a file is missing or has another size), E_CKPT_CHECKSUM.
Checkpoint load_checkpoint(const std::string& path);
void verify_checkpoint(const std::string& path);  // the same checks, without keeping the bytes

struct Latest {
  std::string path;  // empty: there is no usable checkpoint
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // "PATH: why": newer ones that are damaged, to be shown as W_CKPT_FALLBACK
};
Latest find_latest(const std::string& dir);  // the newest that loads

std::vector<int64_t> list_checkpoints(const std::string& dir);  // steps, ascending, whatever their condition
std::string checkpoint_path(const std::string& dir, int64_t step);
void clean_checkpoints(const std::string& dir);  // removes what dead writers left; under the DirLock, at start

// Fails with E_CKPT_MISMATCH, naming every entry that differs between a checkpoint's hashes and this run's.
void require_same(const std::map<std::string, std::string>& saved, const std::map<std::string, std::string>& now);

}  // namespace amp
