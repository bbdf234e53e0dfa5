// Payloads of external data that are in memory. A file that is opened again while its tensors are in use shares them.
// For example, the base of an adapter is opened again to check the written adapter.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>

#include "base/host_tensor.h"

namespace amp {

// A range of bytes of a file, and the state of the file (size, times) in which they were read.
struct PayloadPlace {
  // file: the state of the open file before the bytes are read.
  PayloadPlace(const struct stat& file, int64_t offset, int64_t bytes, DType dtype);
  auto operator<=>(const PayloadPlace&) const = default;

  uint64_t device, inode;
  int64_t size, modified, changed;  // times in nanoseconds
  int64_t offset, bytes;
  DType dtype;
  // False if the file was changed less than three seconds ago. A further change could then leave its times the same,
  // because file systems round them (FAT: two seconds). Such payloads are not shared.
  bool settled;
};

// Returns the tensor that was read from this place, if it is in memory; else an empty tensor.
HostTensor shared_payload(const PayloadPlace& place, const Dims& dims);
// Returns a tensor with the bytes of `read` that later calls of shared_payload() find as long as it, or a copy of it,
// is in memory. Its bytes must not change.
HostTensor share_payload(const PayloadPlace& place, HostTensor read);

}  // namespace amp
