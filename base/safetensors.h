// The safetensors format: 8 bytes little-endian header length, a JSON header {"name": {"dtype", "shape",
// "data_offsets"}}, then the tensors' bytes without holes. https://github.com/huggingface/safetensors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/host_tensor.h"

namespace amp {

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Null when there is none of that name.
const HostTensor* find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name);

struct SafeTensors {
  std::vector<NamedTensor> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
  const HostTensor* find(const std::string& name) const { return find_tensor(tensors, name); }
};

// Everything is checked before a tensor is made: header, names, types, shapes, and that the offsets tile the file.
// Errors: E_SAFETENSORS (E_FILE_MISSING, E_FILE_READ) with `exit`.
SafeTensors read_safetensors(const std::string& path, Exit exit = Exit::data);
SafeTensors parse_safetensors(const FileBytes& file, Exit exit = Exit::data);  // the tensors share the bytes
SafeTensors parse_safetensors(const FileBytes& file, const std::string& path, Exit exit);  // read from path

// The bytes depend on names, types, shapes and values only: ordered as the reference implementation does, wide types
// first, then by name. sink receives consecutive pieces.
using ByteSink = std::function<void(const void* bytes, int64_t size)>;
void write_safetensors(const ByteSink& sink, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});  // atomic, durable (base/file.h)

}  // namespace amp
